/** Changes by SQL are versions like any other. */
import { afterAll, beforeAll, beforeEach, afterEach, describe, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../../../../../../tools/postgres/server.js'
import { commit, readAll, rule, ruleBody } from '../conformance-kit.test-helper.js'
import type { Position, RuleStore } from '../rule-store.js'
import { openStore, QUICK, START_MS_MAX } from './postgres.test-helper.js'

const WITHIN = { timeout: 15_000, interval: 20 }

let server: PostgresServer
let url: string
let store: RuleStore
let start: Position

beforeAll(async () => {
  server = await startPostgres()
}, START_MS_MAX)
afterAll(() => server.stop())
beforeEach(async () => {
  url = await server.createDatabase()
  store = (await openStore(url, { intervals: QUICK })).store
  start = await commit(store, [rule('a'), rule('b')], { base: 1 })
})
afterEach(() => store.close())

const sql = (text: string) => server.psql(text, url)

describe('changes by SQL', () => {
  test('a change by SQL is a version of the database user', async () => {
    await sql(`update sluice.rules set body = '{"id":"a","limits":["9/second"]}' where id = 'a'`)
    const { records, position } = await readAll(store, start)
    const body = { id: 'a', limits: ['9/second'] }
    expect(records).toEqual([{ kind: 'rule', id: 'a', body, version: 3 }])
    expect(position).toMatchObject({ version: 3, lineage: start.lineage })
    const [newest] = await store.history({ limit: 1 })
    expect(newest).toMatchObject({ version: 3, by: 'postgres', why: undefined, changeCount: 1 })
    expect(newest?.changes).toEqual([{ kind: 'rule', id: 'a', before: ruleBody('a'), after: body }])
  })

  test('a change by SQL can name its author and reason', async () => {
    await sql(`begin;
      select set_config('sluice.by', 'ann', true), set_config('sluice.why', 'incident 12', true);
      update sluice.rules set body = jsonb_set(body::jsonb, '{mode}', '"shadow"') where id = 'a';
      commit`)
    const [newest] = await store.history({ limit: 1 })
    expect(newest).toMatchObject({ version: 3, by: 'ann', why: 'incident 12' })
    expect(newest?.changes[0]?.after).toMatchObject({ id: 'a', mode: 'shadow' })
  })

  test('a transaction is one version, with each record once', async () => {
    await sql(`begin;
      insert into sluice.rules (id, body) values ('c', '{"id":"c"}');
      update sluice.rules set body = '{"id":"c","n":2}' where id = 'c';
      delete from sluice.rules where id = 'a';
      insert into sluice.tokens (id, body) values ('t', '{}');
      delete from sluice.tokens where id = 't';
      commit`)
    const [newest, before] = await store.history({ limit: 2 })
    expect([newest?.version, before?.version, newest?.changeCount]).toEqual([3, 2, 3])
    expect(newest?.changes).toEqual([
      { kind: 'rule', id: 'c', before: null, after: { id: 'c', n: 2 } },
      { kind: 'rule', id: 'a', before: ruleBody('a'), after: null },
      { kind: 'token', id: 't', before: null, after: null },
    ])
  })

  test('a rollback, also to a savepoint, makes no version', async () => {
    await sql(`begin; delete from sluice.rules; rollback`)
    expect((await readAll(store, start)).position).toEqual(start)
    await sql(`begin;
      savepoint s; delete from sluice.rules; rollback to s;
      update sluice.rules set body = body where id = 'b'; commit`)
    const { records } = await readAll(store, start)
    expect(records.map(({ id, version }) => [id, version])).toEqual([['b', 3]])
  })

  test('a statement that changes no record makes no version', async () => {
    await sql(`update sluice.rules set body = '{}' where id = 'nothing'`)
    expect((await readAll(store, start)).position).toEqual(start)
  })

  test('a change of an id removes one record and creates another', async () => {
    await sql(`update sluice.rules set id = 'z' where id = 'a'`)
    const { records } = await readAll(store, start)
    expect(new Map(records.map(({ id, body }) => [id, body]))).toEqual(
      new Map([
        ['a', null],
        ['z', ruleBody('a')],
      ]),
    )
  })

  test('all nodes are notified of a change by SQL', async () => {
    await expect.poll(() => store.status().news, WITHIN).toBe('push')
    let news = 0
    store.onChange(() => {
      news += 1
    })
    await sql(`delete from sluice.rules where id = 'a'`)
    await expect.poll(() => news, WITHIN).toBeGreaterThan(0)
  })

  test('a commit based on the version before a change by SQL is a conflict', async () => {
    await sql(`update sluice.rules set body = body where id = 'a'`)
    await expect(commit(store, [rule('a', 5)], { base: 2 })).rejects.toMatchObject({ version: 3 })
  })

  test('a change by SQL cannot set its version', async () => {
    await sql(`update sluice.rules set version = 999 where id = 'a'`)
    const { records } = await readAll(store, start)
    expect(records.map(({ version }) => version)).toEqual([3])
  })
})

test('concurrent changes wait for each other, and never deadlock', async () => {
  const hand = Array.from({ length: 20 }, (_, n) =>
    sql(`update sluice.rules set body = '{"id":"a","n":${n}}' where id = '${n % 2 ? 'a' : 'b'}'`),
  )
  const api = Array.from({ length: 10 }, async (_, n) => {
    for (;;) {
      const { position } = await readAll(store)
      const base = position.version
      const made = await commit(store, [rule('b', n + 1), rule('a', n + 1)], { base }).catch(
        (error: unknown) => {
          if (error instanceof Error && error.name === 'ConflictError') return undefined
          throw error
        },
      )
      if (made !== undefined) return
    }
  })
  await Promise.all([...hand, ...api])
  const versions = (await store.history({ limit: 100 })).map(({ version }) => version)
  expect(versions).toEqual(Array.from({ length: 32 }, (_, n) => 32 - n))
})

describe('statements that nodes could not follow are refused', () => {
  test.each([
    ['truncate sluice.rules', 'TRUNCATE of sluice.rules: nobody would know what was removed'],
    ['truncate sluice.versions', 'nobody would know'],
    ['delete from sluice.versions', 'the history of the rule store is only added to'],
    ["update sluice.versions set by = 'eve'", 'the history of the rule store is only added to'],
    ['delete from sluice.changes', 'the history of the rule store is only added to'],
    ["update sluice.changes set after = '{}'", 'only added to'],
    ["insert into sluice.rules values ('x', '[]')", 'violates check constraint'],
    ["insert into sluice.rule_set values ('other', '{}')", 'violates check constraint'],
  ])('%s', async (text, message) => {
    await expect(sql(text)).rejects.toThrow(message)
  })
})

test('beyond 100,000 removed records the oldest are dropped, and older positions read everything', async () => {
  await sql(`delete from sluice.rules where id = 'a'`)
  const { position } = await readAll(store, start)
  // Written directly: removing that many records would take a while.
  await sql(`insert into sluice.removed (kind, id, version)
    select 'token', 't' || n, 3 from generate_series(1, 99999) as n`)
  expect((await readAll(store, start)).isWhole).toBe(false)
  await sql(`insert into sluice.tokens (id, body) values ('t0', '{}'); delete from sluice.tokens`)
  const whole = await readAll(store, start)
  expect([whole.isWhole, whole.records.length]).toEqual([true, 2])
  const { isWhole, records } = await readAll(store, position)
  expect([isWhole, records.map(({ id }) => id)]).toEqual([false, ['t0']])
})

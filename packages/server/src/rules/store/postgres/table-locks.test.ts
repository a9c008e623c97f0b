/** Another session locks or removes the tables of the store: it is reported, and does no harm. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../../../../../../tools/postgres/server.js'
import { commit, readAll, rule } from '../conformance-kit.test-helper.js'
import { type RuleStore, UnavailableError } from '../rule-store.js'
import { openStore, QUICK, QUICK_AND_PATIENT, START_MS_MAX } from './postgres.test-helper.js'

const WITHIN = { timeout: 15_000, interval: 20 }

let server: PostgresServer
let url: string
const opened: RuleStore[] = []

beforeAll(async () => {
  server = await startPostgres()
}, START_MS_MAX)
afterAll(() => server.stop())
beforeEach(async () => {
  url = await server.createDatabase()
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map((store) => store.close()))
})

async function open(intervals = QUICK) {
  const { store, lines } = await openStore(url, { intervals })
  opened.push(store)
  await commit(store, [rule('a')])
  return { store, lines }
}

/** Runs until the returned function is called. */
async function holding(sql: string): Promise<() => Promise<void>> {
  const name = `holder ${sql.slice(0, 20).replaceAll(/\W/g, ' ')}`
  const where = `from pg_stat_activity where application_name = '${name}'`
  const held = server
    .psql(`set application_name = '${name}'; begin; ${sql}; select pg_sleep(60)`, url)
    .catch(() => undefined)
  const isHeld = () => server.psql(`select count(*) ${where} and query like '%pg_sleep%'`, url)
  await expect.poll(isHeld, WITHIN).toBe('1')
  return async () => {
    await server.psql(`select pg_terminate_backend(pid) ${where}`, url)
    await held
  }
}

const connections = async () =>
  Number(
    await server.psql(
      "select count(*) from pg_stat_activity where application_name = 'sluice' and datname = current_database()",
      url,
    ),
  )

test('polls that wait for a lock do not use up the connections of the server', async () => {
  const { store } = await open()
  const release = await holding('lock table sluice.state in access exclusive mode')
  try {
    await expect.poll(() => store.status().isConnected, WITHIN).toBe(false)
    await expect
      .poll(() => store.status().problem, WITHIN)
      .toContain('does another session hold a lock')
    let most = 0
    // Some ten polls.
    for (let looks = 0; looks < 50; looks++) most = Math.max(most, await connections())
    expect(most).toBeLessThanOrEqual(5)
  } finally {
    await release()
  }
  await expect
    .poll(() => store.status(), WITHIN)
    .toMatchObject({ isConnected: true, problem: undefined })
})

test('commits that wait behind one that waits for a lock fail with that reason', async () => {
  const { store } = await open()
  const release = await holding('select sluice.hold()')
  try {
    const all = ['b', 'c', 'd'].map((id) => commit(store, [rule(id)], { base: 2 }))
    const [first, ...others] = await Promise.allSettled(all)
    expect(first).toMatchObject({ reason: { name: 'UnavailableError', isUncertain: false } })
    expect(String((first as PromiseRejectedResult).reason)).toContain('hold a lock')
    for (const other of others) {
      expect(String((other as PromiseRejectedResult).reason)).toContain('busy with earlier commits')
    }
    expect((await readAll(store)).position.version).toBe(2)
  } finally {
    await release()
  }
  expect((await commit(store, [rule('e')], { base: 2 })).version).toBe(3)
})

test.each([
  ['a table', 'alter table sluice.state rename to s', 'alter table sluice.s rename to state'],
  [
    'its row',
    'create table s as select * from sluice.state; delete from sluice.state',
    'insert into sluice.state select * from s',
  ],
])('a missing %s of the store is logged once, until it is back', async (_, take, give) => {
  const { store, lines } = await open(QUICK_AND_PATIENT)
  await server.psql(take, url)
  // It is not connected at first either, without a problem.
  await expect
    .poll(() => store.status(), WITHIN)
    .toMatchObject({ isConnected: false, problem: expect.stringContaining('sluice.state') })
  const linesBefore = lines.length
  for (let looks = 0; looks < 20; looks++) {
    // Each of them takes a while.
    await connections()
    expect(store.status()).toMatchObject({ isConnected: false })
    expect(store.status().problem).toContain('sluice.state')
  }
  expect(lines.length - linesBefore).toBeLessThanOrEqual(1)
  await expect(readAll(store)).rejects.toThrow(UnavailableError)
  await server.psql(give, url)
  await expect.poll(() => store.status().isConnected, WITHIN).toBe(true)
  expect((await readAll(store)).position.version).toBe(2)
})

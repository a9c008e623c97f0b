import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../../../../../../tools/postgres/server.js'
import { commit, readAll, rule } from '../conformance-kit.test-helper.js'
import { UnavailableError } from '../rule-store.js'
import { prepareConnection } from './connection-settings.js'
import { Database } from './database.js'
import { migrate, type Migration, MIGRATIONS } from './migrate.js'
import { openStore, QUICK, START_MS_MAX } from './postgres.test-helper.js'

const WITHIN = { timeout: 15_000, interval: 20 }

let server: PostgresServer
const migrations = MIGRATIONS
const databases: Database[] = []

beforeAll(async () => {
  server = await startPostgres()
}, START_MS_MAX)
afterAll(async () => {
  await Promise.all(databases.map((database) => database.close()))
  await server.stop()
})

async function connect(url: string): Promise<Database> {
  const database = new Database(await prepareConnection({ url, tls: undefined }))
  databases.push(database)
  return database
}

const extra = (text: string, number = 9): Migration => ({
  number,
  file: `000${number}-extra.sql`,
  text,
  checksum: String(number).repeat(64),
})

describe('migrations', () => {
  test('migrations are numbered from 1 without a gap', () => {
    expect(migrations.map(({ number }) => number)).toEqual(migrations.map((_, index) => index + 1))
  })

  test('migrations run once, however many nodes start at once', async () => {
    const url = await server.createDatabase()
    const nodes = await Promise.all(Array.from({ length: 6 }, () => connect(url)))
    const ran = await Promise.all(nodes.map((node) => migrate(node, migrations)))
    expect(ran.flat()).toEqual(migrations.map(({ file }) => file))
    expect(await migrate(await connect(url), migrations)).toEqual([])
    expect(await server.psql('select count(*) from sluice.migrations', url)).toBe(
      String(migrations.length),
    )
  })

  test('new migrations run after those that were applied before', async () => {
    const database = await connect(await server.createDatabase())
    await migrate(database, migrations)
    const more = [...migrations, extra('create table sluice.extra (a int)')]
    expect(await migrate(database, more)).toEqual(['0009-extra.sql'])
    expect(await migrate(database, more)).toEqual([])
  })

  test('a failed migration leaves nothing behind', async () => {
    const url = await server.createDatabase()
    const database = await connect(url)
    const bad = [...migrations, extra('create table sluice.extra (a int); select nonsense')]
    await expect(migrate(database, bad)).rejects.toThrow('column "nonsense" does not exist')
    const left = "select count(*) from pg_namespace where nspname = 'sluice'"
    expect(await server.psql(left, url)).toBe('0')
    expect(await migrate(database, migrations)).toHaveLength(migrations.length)
  })

  test('changed migrations are refused with the file and both checksums', async () => {
    const database = await connect(await server.createDatabase())
    await migrate(database, migrations)
    const changed = migrations.map((each) => ({ ...each, checksum: 'abcdef012345'.repeat(5) }))
    await expect(migrate(database, changed)).rejects.toThrow(
      new RegExp(
        `^postgres 127\\.0\\.0\\.1:\\d+/test_\\d+: found migration 0001-rule-store\\.sql with ` +
          `checksum ${migrations[0]?.checksum.slice(0, 12)}; accepted: abcdef012345, that of`,
      ),
    )
  })

  test('migrations of a newer release are refused with what is accepted', async () => {
    const database = await connect(await server.createDatabase())
    await migrate(database, [...migrations, extra('select 1')])
    const refused = migrate(database, migrations)
    await expect(refused).rejects.toThrow(UnavailableError)
    await expect(refused).rejects.toThrow(
      `found migration 0009-extra.sql, made by a newer release; accepted: migrations up to ${migrations.length}`,
    )
  })
})

describe('an unusable database', () => {
  test('a store on an unusable database opens, and rejects requests with the reason', async () => {
    const url = await server.createDatabase()
    await migrate(await connect(url), [...migrations, extra('select 1')])
    const { store, lines } = await openStore(url, { intervals: QUICK })
    await expect(readAll(store)).rejects.toThrow('made by a newer release')
    expect(store.status()).toMatchObject({ isConnected: false, news: 'none' })
    expect(store.status().problem).toContain('made by a newer release')
    await new Promise((resolve) => setTimeout(resolve, 300))
    // It is retried, and logged once.
    expect(lines.map(({ level, msg }) => [level, msg])).toEqual([
      ['error', 'rule store unavailable'],
    ])
    await server.psql('delete from sluice.migrations where number = 9', url)
    await expect.poll(() => store.status().isConnected, WITHIN).toBe(true)
    await store.close()
  })

  test('without a schema, the error names the role that is needed to create it', async () => {
    const url = await server.createDatabase()
    await server.psql('create role nobody_much login')
    const { store } = await openStore(url.replace('postgres@', 'nobody_much@'))
    expect(store.status().problem).toMatch(
      /permission denied for database test_\d+; accepted: a role that may create the schema sluice, once$/,
    )
    await store.close()
  })
})

test('a role that may only use the tables can do everything except migrate', async () => {
  const url = await server.createDatabase()
  await migrate(await connect(url), migrations)
  await server.psql(
    `create role app login;
     grant usage on schema sluice to app;
     grant select on all tables in schema sluice to app;
     grant insert, update, delete on sluice.rule_set, sluice.rules, sluice.candidates,
       sluice.overrides, sluice.known_keys, sluice.tokens, sluice.secrets, sluice.nodes to app`,
    url,
  )
  const asApp = url.replace('postgres@', 'app@')
  const { store } = await openStore(asApp, { intervals: QUICK })
  await commit(store, [rule('a')], { base: 1 })
  await commit(store, [{ kind: 'rule', id: 'a', body: null }], { base: 2 })
  const adopted = await store.adopt(9, 'ada', undefined)
  expect((await readAll(store)).position).toEqual(adopted)
  await expect.poll(() => store.status().news, WITHIN).toBe('push')
  await store.close()
  // It may change only records; triggers write versions and the history.
  for (const sql of [
    'update sluice.state set version = 1',
    "insert into sluice.versions values (99, 'x', now(), 'x')",
    'delete from sluice.changes',
    'select sluice.begin_version(77)',
  ]) {
    await expect(server.psql(sql, asApp)).rejects.toThrow('permission denied')
  }
})

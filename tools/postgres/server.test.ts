import { existsSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { waitFor } from '../redis/wait-for.js'
import { startPgBouncer } from './pgbouncer.js'
import { type PostgresServer, startPostgres } from './server.js'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

describe('a Postgres test server', () => {
  test('answers on the loopback, and reports errors', async () => {
    expect(await server.psql("select 'a', 2")).toBe('a|2')
    await expect(server.psql('select nothing')).rejects.toThrow('column "nothing" does not exist')
  })

  test('creates independent databases', async () => {
    const [one, other] = [await server.createDatabase(), await server.createDatabase()]
    await server.psql('create table here (a int)', one)
    expect(await server.psql("select to_regclass('here') is null", other)).toBe('t')
  })

  test('keeps committed data over a crash, on the same port', async () => {
    const url = await server.createDatabase()
    await server.psql('create table kept (a int); insert into kept values (7)', url)
    const { port, pid } = server
    await server.restart()
    expect(await server.psql('select a from kept', url)).toBe('7')
    expect([server.port, server.pid === pid]).toEqual([port, false])
  })

  test('answers no connection while it is paused, not even open ones', async () => {
    // Time for the connection to be made, and to be in the middle of a query.
    const SLEEP_S = 4
    let isAnswered = false
    const answer = server.psql(`select pg_sleep(${SLEEP_S})`).then(() => {
      isAnswered = true
    })
    const sleeping = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"
    await waitFor('A connection', async () => (await server.psql(sleeping)) === '1')
    server.pause()
    await new Promise((resolve) => setTimeout(resolve, SLEEP_S * 1000 + 200))
    expect(isAnswered).toBe(false)
    server.resume()
    await answer
  })

  test('can be killed while it is paused', async () => {
    server.pause()
    await server.kill()
    expect(server.isRunning).toBe(false)
    await server.start()
    expect(await server.psql('select 1')).toBe('1')
  })

  test('leaves no folder behind', async () => {
    const other = await startPostgres()
    await other.stop()
    expect(existsSync(other.socketFolder)).toBe(false)
  })
})

test('PgBouncer assigns a connection for one transaction, so session state is lost', async () => {
  const bouncer = await startPgBouncer(server)
  const url = bouncer.urlOf(server.url)
  expect(new URL(url).port).toBe(String(bouncer.port))
  // Another client has the connection now.
  expect(await server.psql('listen x', url)).toBe('')
  expect(await server.psql('select pg_listening_channels()', url)).toBe('x')
  await bouncer.stop()
})

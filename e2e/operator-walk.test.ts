/**
 * The operator walk of docs/guides/runbook.md, command by command: two nodes with one Redis and one
 * Postgres, diagnosed and repaired with nothing but the command line.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../tools/postgres/server.js'
import { type RedisServer, startRedis } from '../tools/redis/server.mjs'
import { shiftedClockEnv } from '../tools/redis/shifted.js'
import { repeatEvery } from './alerts/alerting-server.test-helper.js'
import { requestDecision, runSluice } from './operator.test-helper.js'
import { type Terminal, walkOf, walkRules } from './operator-walk.test-helper.js'
import { makeFolder, stopAll } from './process.test-helper.js'
import { type RunningServer, start } from './serve.test-helper.js'

const TOKEN = 'e2e-admin-token-of-a-hundred-and-twenty-eight-bits'
const HOUR_MS = 3_600_000
const CALLS_MAX = 2000
/** Faster than the customer's limit refills. */
const CALL_EVERY_MS = 50
const ORDER = { user: 'acme', method: 'GET', path: '/v1/orders' }

let redis: RedisServer
let postgres: PostgresServer
let node: RunningServer
let skewed: RunningServer
let terminal: Terminal

beforeAll(async () => {
  ;[redis, postgres] = await Promise.all([startRedis(), startPostgres()])
  const env = {
    SLUICE_REDIS_URL: redis.url,
    SLUICE_DATABASE_URL: postgres.url,
    SLUICE_ADMIN_TOKEN: TOKEN,
    SLUICE_STORE_DEADLINE_MS: '1000',
  }
  node = await start(env)
  skewed = await start({ ...env, ...(await shiftedClockEnv(HOUR_MS)) })
  terminal = {
    cwd: makeFolder(),
    env: { SLUICE_ADMIN_URL: node.admin, SLUICE_ADMIN_TOKEN: TOKEN },
  }
  writeFileSync(join(terminal.cwd, 'rules.yaml'), walkRules())
  const applied = await sluice('rules apply -f rules.yaml --yes')
  expect(applied, applied.err).toMatchObject({ code: 0 })
})

afterAll(async () => {
  await stopAll()
  await Promise.all([redis.stop(), postgres.stop()])
})

const sluice = (line: string) => runSluice(line.split(' '), terminal)

/** Whether a call of the customer passes. */
const isAllowed = async (running: RunningServer) =>
  (await requestDecision(running.api, 'check', ORDER)).allowed

/** Makes calls until one is refused. */
async function useUp(running: RunningServer): Promise<void> {
  for (let calls = 0; calls < CALLS_MAX; calls++) if (!(await isAllowed(running))) return
  throw new Error(`${CALLS_MAX} calls, and none was refused`)
}

describe('an operator with nothing but the command line', () => {
  test('finds out which clock is off, and by how much', async () => {
    const next = walkOf("A node's clock is off", terminal)
    const [alerts, nodes] = await next()
    const named = /clock-offset (\w+),/.exec(alerts?.out ?? '')?.[1]
    const off = nodes?.out.split('\n').filter((line) => / -1 h /.test(line)) ?? []
    expect(off).toHaveLength(1)
    expect(off[0]?.split(' ')[0]).toBe(named)
    // One alert for the node whose clock is off, and none for the other or for Redis.
    expect(alerts?.out.match(/^ticket +clock-offset/gm)).toHaveLength(1)
  })

  test('finds a mistyped limit, stops the refusals, and reverts the change', async () => {
    const next = walkOf('A limit is mistyped', terminal)
    const { version } = JSON.parse((await sluice('rules get orders --json')).out) as {
      readonly version: number
    }
    await sluice('rules set orders --limits 1/minute --yes')
    await useUp(node)
    await next()
    expect(await isAllowed(node)).toBe(true)
    // The other node has the same timed shadow, although its clock is an hour off.
    await expect.poll(() => isAllowed(skewed), { timeout: 30_000 }).toBe(true)
    await next()
    await next(version)
    expect((await requestDecision(node.api, 'peek', ORDER)).limits).toMatchObject({ orders: 100 })
  })

  test("finds out why a customer is refused, and raises that customer's limit", async () => {
    const next = walkOf('A customer complains', terminal)
    await useUp(node)
    const stop = repeatEvery(CALL_EVERY_MS, async () => void (await isAllowed(node)))
    await next()
    await stop()
    await next()
    await next()
    expect(await isAllowed(node)).toBe(true)
  })

  test('finds out that Redis is dead, makes one rule fail closed, and notices when Redis is back', async () => {
    const next = walkOf('Redis dies', terminal)
    await redis.kill()
    await next()
    await next()
    const login = { ip: '192.0.2.1', method: 'POST', path: '/login' }
    expect(await requestDecision(node.api, 'check', login)).toMatchObject({
      allowed: false,
      rule: 'login',
    })
    await redis.start()
    await next()
    await next()
    expect(await requestDecision(node.api, 'check', login)).toMatchObject({ allowed: true })
  })
})

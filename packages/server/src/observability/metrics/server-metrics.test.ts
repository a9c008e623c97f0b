/** `/metrics` of a whole server with leased and local rules. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../../../../tools/redis/server.mjs'
import { readMetrics, valueOf } from './read-metrics.test-helper.js'
import { startTestServer, type TestServer } from '../../serve.test-helper.js'

let redis: RedisServer
let server: TestServer | undefined
beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())
afterEach(async () => {
  await server?.close()
  server = undefined
})

/** Windows and buckets that do not move while a test runs. */
const LONG = { max: 100_000, window: '366d' }
const RULES = [
  { id: 'exact', by: ['user'], limits: [LONG] },
  { id: 'hot', match: { path: '/hot' }, by: [], limits: [LONG], coordination: 'leased' },
  { id: 'coarse', match: { path: '/coarse' }, by: [], limits: [LONG], coordination: 'local' },
  { id: 'idle', by: ['user'], limits: [LONG], coordination: 'leased', mode: 'off' },
]
const COARSE_REPORTED = { rule: 'coarse', fate: 'reported' }
const CALLS_MAX = 2000
/** Long enough that a busy machine causes no decision by posture. */
const PATIENT = { SLUICE_STORE_DEADLINE_MS: '10000' }

async function metricsOf({ admin }: TestServer) {
  return readMetrics(await (await fetch(`${admin}/metrics`)).text())
}

async function decide({ api }: TestServer, path: string) {
  const body = JSON.stringify({ attributes: { path } })
  const response = await fetch(`${api}/v1/check`, { method: 'POST', body })
  return (await response.json()) as { readonly source: string; readonly staleMs?: number }
}

/** Calls until a call is decided on the node, and returns that decision. */
async function untilDecidedLocally(node: TestServer, path: string) {
  for (let calls = 1; calls <= CALLS_MAX; calls++) {
    const decision = await decide(node, path)
    if (decision.source !== 'store') return decision
  }
  throw new Error(`the store decided ${CALLS_MAX} calls of ${path}`)
}

test('leased and local rules are reported from 0, exact and disabled ones never', async () => {
  server = await startTestServer({ rules: RULES, env: { SLUICE_REDIS_URL: redis.url } })
  const metrics = await metricsOf(server)
  const over = metrics.get('sluice_over_admitted_total')?.samples
  expect([...(over?.entries() ?? [])]).toEqual([
    ['[["rule","coarse"]]', 0],
    ['[["rule","hot"]]', 0],
  ])
  expect(valueOf(metrics, 'sluice_lease_draws_total', { rule: 'hot' })).toBe(0)
  expect(valueOf(metrics, 'sluice_local_counters', { rule: 'coarse' })).toBe(0)
})

test('the memory store has no coordination metrics', async () => {
  server = await startTestServer({ rules: RULES })
  const metrics = await metricsOf(server)
  expect(metrics.get('sluice_over_admitted_total')?.samples.size).toBe(0)
})

test('all leased units are accounted for', async () => {
  server = await startTestServer({ rules: RULES, env: { SLUICE_REDIS_URL: redis.url, ...PATIENT } })
  const decision = await untilDecidedLocally(server, '/hot')
  expect(decision).toMatchObject({ source: 'lease', staleMs: expect.any(Number) as number })
  const metrics = await metricsOf(server)
  const units = (fate: string) =>
    valueOf(metrics, 'sluice_lease_units_total', { rule: 'hot', fate }) ?? NaN
  const held = valueOf(metrics, 'sluice_lease_units_held', { rule: 'hot' }) ?? NaN
  expect(units('drawn')).toBe(units('spent') + units('given_back') + units('lost') + held)
  expect(units('spent')).toBeGreaterThan(0)
  expect(valueOf(metrics, 'sluice_lease_draws_total', { rule: 'hot' })).toBeGreaterThan(0)
  expect(valueOf(metrics, 'sluice_over_admitted_total', { rule: 'hot' })).toBe(0)
})

test('locally counted units are in the metrics once they are reported to the store', async () => {
  server = await startTestServer({ rules: RULES, env: { SLUICE_REDIS_URL: redis.url, ...PATIENT } })
  const node = server
  const decision = await untilDecidedLocally(node, '/coarse')
  expect(decision).toMatchObject({ source: 'local', staleMs: expect.any(Number) as number })
  const readReported = async () => {
    await decide(node, '/coarse')
    const metrics = await metricsOf(node)
    const reported = valueOf(metrics, 'sluice_local_units_total', COARSE_REPORTED) ?? 0
    const callers = valueOf(metrics, 'sluice_local_counters', { rule: 'coarse' })
    return { areReported: reported > 0, callers }
  }
  await expect.poll(readReported, { timeout: 30_000 }).toEqual({ areReported: true, callers: 1 })
  const over = valueOf(await metricsOf(node), 'sluice_over_admitted_total', { rule: 'coarse' })
  expect(over).toBe(0)
})

import { redisStore } from '@sluice/limiter/redis'
import { memoryStore } from '@sluice/limiter'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { type RedisServer, startRedis } from '../../../../tools/redis/server.mjs'
import type { Config } from '../config/config.js'
import { parseConfig } from '../config/parse-config.js'
import { warmUpRequests, WarmUpClient } from '../entrypoints/envoy/warm-up-calls.js'
import { readMetrics, valueOf } from '../observability/metrics/read-metrics.test-helper.js'
import { startTestServer } from '../serve.test-helper.js'
import { openWarmUpServer, WARM_UP_PATHS } from './warm-up-server.js'
import { warmUp } from './warm-up.js'

/** A slow machine may not get that far in a second. */
const PATIENT_MS = 100_000

let redis: RedisServer
beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())
afterEach(async () => {
  await redis.cli('FLUSHALL')
  await redis.cli('CONFIG', 'RESETSTAT')
})

/** How often scripts that decide have run. */
async function decisions(): Promise<number> {
  const stats = String(await redis.cli('INFO', 'commandstats'))
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
}

function configOf(url: string) {
  const { config } = parseConfig(undefined, {
    file: undefined,
    env: { SLUICE_REDIS_URL: url },
    readFile: () => '',
  })
  if (config === undefined) throw new Error('the configuration is bad')
  return config
}

function withEnvoy(config: Config, envoy: Partial<Config['envoy']>): Config {
  return { ...config, envoy: { ...config.envoy, ...envoy } }
}

/** The first field of a RateLimitResponse: 1 admits, 2 refuses. */
function overallCode(message: Buffer): number | undefined {
  return message[0] === 1 << 3 ? message[1] : undefined
}

async function openStore() {
  const store = redisStore({ url: redis.url })
  await store.ready
  return store
}

test('a node runs its decision path before it is ready, without visible effects', async () => {
  const server = await startTestServer({
    rules: [{ id: 'everybody', by: [], limits: ['10/hour'] }],
    env: { SLUICE_REDIS_URL: redis.url },
    warmUpMs: PATIENT_MS,
  })
  expect(await decisions()).toBeGreaterThan(20)
  const metrics = readMetrics(await (await fetch(`${server.admin}/metrics`)).text())
  expect(valueOf(metrics, 'sluice_store_seconds_count')).toBe(0)
  expect(valueOf(metrics, 'sluice_decision_seconds_count')).toBe(0)
  expect(metrics.get('sluice_decisions_total')?.samples.size ?? 0).toBe(0)
  expect(metrics.get('sluice_store_errors_total')?.samples.size ?? 0).toBe(0)
  const requests = metrics.get('ratelimit_service_total_requests')?.samples.values() ?? []
  expect([...requests]).toEqual([0])
  expect(metrics.get('sluice_grpc_calls_total')?.samples.size ?? 0).toBe(0)
  expect(server.calls).toEqual([])
  expect(JSON.stringify(server.lines)).not.toContain('warm-up')
  const check = { method: 'POST', body: '{"attributes":{"ip":"192.0.2.1"}}' }
  const decision = await (await fetch(`${server.api}/v1/check`, check)).json()
  expect(decision).toMatchObject({ allowed: true, remaining: 9, source: 'store' })
  await server.close()
})

test('every counter of warm-up expires by itself', async () => {
  const store = await openStore()
  await warmUp(configOf(redis.url), store)
  const keys = (await redis.call('KEYS', '*')) as readonly (string | Buffer)[]
  const counters = keys.map(String).filter((key) => !key.includes('{home}'))
  expect(counters.length).toBeGreaterThan(0)
  for (const key of counters) {
    // -2: it has expired since.
    const ttl = Number(await redis.cli('PTTL', key))
    expect(ttl).not.toBe(-1)
    expect(ttl).toBeLessThan(10_000)
  }
  await store.close()
})

test('a Redis that stops answering during warm-up delays no start and opens no breaker', async () => {
  const store = await openStore()
  redis.pause()
  await warmUp(configOf(redis.url), store)
  redis.resume()
  expect(store.stats().nodes).toMatchObject([{ isBreakerOpen: false, breakerOpened: 0 }])
  await store.close()
})

test('there is no warm-up without a Redis that has answered', async () => {
  const store = redisStore({ url: 'redis://127.0.0.1:1' })
  await warmUp(configOf('redis://127.0.0.1:1'), store)
  expect(store.stats().state).toBe('starting')
  await store.close()
})

test('a store in this process needs no warm-up where nothing is configured for Envoy', async () => {
  const store = memoryStore()
  expect(await warmUp(configOf('redis://127.0.0.1:1'), store)).toEqual({ http: 0, grpc: 0 })
  expect(store.stats().counters).toBe(0)
})

test('with a store in this process only the rate limit service warms up, beside that store', async () => {
  const store = memoryStore()
  const config = withEnvoy(configOf('redis://127.0.0.1:1'), { config: 'configured' })
  const { http, grpc } = await warmUp(config, store, PATIENT_MS)
  expect(http).toBe(0)
  expect(grpc).toBeGreaterThan(20)
  expect(store.stats().counters).toBe(0)
})

test('with Redis every entry point warms up', async () => {
  const store = await openStore()
  const { http, grpc } = await warmUp(configOf(redis.url), store, PATIENT_MS)
  expect(http).toBeGreaterThan(20)
  expect(grpc).toBeGreaterThan(20)
  await store.close()
})

test.each(['grpc-js', 'own'] as const)(
  'warm-up calls the rate limit service on %s, and is admitted and refused by a configuration and by rules',
  async (server) => {
    const store = await openStore()
    const config = withEnvoy(configOf(redis.url), { server })
    const warmUpServer = await openWarmUpServer(config, store.warmUpStore())
    const client = new WarmUpClient(warmUpServer.grpc)
    const requests = warmUpRequests(WARM_UP_PATHS)
    const codes = new Map(requests.map((request) => [request, new Set<number | undefined>()]))
    await vi.waitFor(async () => {
      for (const [request, found] of codes) {
        const { status, message } = await client.call(request)
        expect(status).toBe('0')
        found.add(overallCode(message))
      }
      const all = [...codes.values()].map((found) => [found.has(1), found.has(2)])
      const [admitted, refusedToo] = [
        [true, false],
        [true, true],
      ]
      const byConfiguration = [admitted, refusedToo, admitted]
      const byRules = [admitted, admitted, admitted, admitted, refusedToo]
      expect(all).toEqual([...byConfiguration, ...byRules])
    }, PATIENT_MS)
    client.close()
    await warmUpServer.close()
    await expect(
      new WarmUpClient(warmUpServer.grpc).call(requests[0] ?? Buffer.alloc(0)),
    ).rejects.toThrow()
    await store.close()
  },
)

test('the rules of warm-up admit and refuse through every entry point, with their own upstream', async () => {
  const store = await openStore()
  const server = await openWarmUpServer(configOf(redis.url), store.warmUpStore())
  const authorization = `Bearer ${server.token}`
  const body = (path: string) => JSON.stringify({ attributes: { ip: '192.0.2.1', path } })
  const check = (path: string) =>
    fetch(`${server.api}/v1/check`, {
      method: 'POST',
      headers: { authorization },
      body: body(path),
    })
  const admitted = await fetch(`${server.gateway}/fixed-window`)
  expect(admitted.status).toBe(200)
  expect(await admitted.json()).toMatchObject({ from: 'sluice echo' })
  const forwarded = { 'x-forwarded-for': '192.0.2.1', 'x-forwarded-uri': '/token-bucket' }
  const auth = await fetch(`${server.api}/v1/forward-auth`, { headers: forwarded })
  expect(auth.status).toBe(200)
  const several = (await (await check('/every-limit')).json()) as { readonly source: string }
  expect(several).toMatchObject({ allowed: true, source: 'store' })
  const refused = await Promise.all(Array.from({ length: 20 }, () => check('/refused')))
  const allowed = await Promise.all(refused.map(async (each) => (await each.json()) as object))
  expect(allowed).toContainEqual(expect.objectContaining({ allowed: false }))
  await server.close()
  await store.close()
})

test('only warm-up itself may use its decision API', async () => {
  const store = await openStore()
  const server = await openWarmUpServer(configOf(redis.url), store.warmUpStore())
  const check = { method: 'POST', body: '{"attributes":{}}' }
  expect((await fetch(`${server.api}/v1/check`, check)).status).toBe(401)
  await server.close()
  await expect(fetch(`${server.api}/healthz`)).rejects.toThrow()
  await expect(fetch(server.gateway)).rejects.toThrow()
  // The connections belong to the real store, and stay.
  expect(store.stats().nodes).toMatchObject([{ isAnswering: true }])
  await store.close()
})

/** The conformance suite of the service on a real Redis, and two services that share one. */
import { redisStore } from '@sluice/limiter/redis'
import { manualClock } from '@sluice/limiter/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startCluster } from '../../../../../tools/redis/cluster.js'
import { startRedis } from '../../../../../tools/redis/server.mjs'
import { descriptorOf, envoyConformance } from './conformance.test-helper.js'
import { openService } from './rate-limit-service.test-helper.js'

let prefixes = 0
const servers: Record<string, { readonly url: string; stop(): Promise<void> }> = {}

beforeAll(async () => {
  servers['Redis'] = await startRedis()
  servers['Redis Cluster'] = await startCluster({ primaries: 3, replicas: 0 })
})

afterAll(async () => {
  await Promise.all(Object.values(servers).map((server) => server.stop()))
})

const KINDS = ['Redis', 'Redis Cluster']

/** The time is the test's, in Redis too; no refusal is remembered, as it does not say all. */
function storeWith(
  kind: string,
  clock: ReturnType<typeof manualClock>,
  prefix = `envoy${prefixes++}`,
) {
  const url = servers[kind]?.url ?? ''
  return redisStore({ url, prefix, clock, denyCacheMs: 0, deadlineMs: 5000 })
}

describe.each(KINDS)('on %s', (kind) => {
  envoyConformance(async ({ config, isQuota, isShadow, requireMatch }, counting) => {
    const domains = new Map(
      config.map(({ domain }) => [domain, { counting, requireMatch }] as const),
    )
    const clock = manualClock()
    const store = storeWith(kind, clock)
    await store.ready
    const patience = { deadlineMs: 5000, storeDeadlineMs: 5000 }
    const options = {
      config,
      domains,
      isQuota,
      isShadow,
      sendsMetadata: true,
      clock,
      store,
      ...patience,
    }
    const { service, registry, close } = await openService(options)
    return {
      shouldRateLimit: (request) => service.shouldRateLimit(request, { timeoutMs: undefined }),
      advance: (ms) => clock.advance(ms),
      metrics: () => registry.text(),
      close,
    }
  })
})

describe.each(KINDS)('two services on one %s', (kind) => {
  const config = [
    {
      domain: 'shop',
      descriptors: Array.from({ length: 10 }, (_, i) => ({
        key: `key${i}`,
        rate_limit: { unit: 'hour', requests_per_unit: 100 + 10 * i },
      })),
    },
  ]
  const descriptors = Array.from({ length: 10 }, (_, i) => descriptorOf(`key${i}=x`))

  test('with ten descriptors a request, are exact to the unit', async () => {
    const clock = manualClock()
    const prefix = `envoy${prefixes++}`
    const open = async () => {
      const store = storeWith(kind, clock, prefix)
      await store.ready
      return openService({ config, clock, store, deadlineMs: 5000, storeDeadlineMs: 5000 })
    }
    const services = await Promise.all([open(), open()])
    const request = { domain: 'shop', descriptors, hitsAddend: 0 }
    const ask = async (i: number) => {
      const { service } = services[i % 2] ?? services[0]
      const { overallCode } = await service.shouldRateLimit(request, { timeoutMs: undefined })
      return overallCode
    }
    const codes = await Promise.all(Array.from({ length: 300 }, (_, i) => ask(i)))
    expect(codes.filter((code) => code === 'ok')).toHaveLength(100)
    // What was refused by the smallest limit charged none of the others.
    const last = await services[0].service.shouldRateLimit(request, { timeoutMs: undefined })
    expect(last.statuses.map(({ limitRemaining }) => limitRemaining)).toEqual(
      Array.from({ length: 10 }, (_, i) => 10 * i),
    )
    await Promise.all(services.map(({ close }) => close()))
  })
})

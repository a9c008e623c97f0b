/** The quota service over real gRPC streams, in memory and on Redis. */
import { redisStore } from '@sluice/limiter/redis'
import { manualClock } from '@sluice/limiter/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../../../../../tools/redis/server.mjs'
import { manualScheduler } from '../../../lib/manual-scheduler.test-helper.js'
import {
  closeAfterEach,
  closeAfterTest,
  eventually,
  startGrpc,
  TestClient,
} from '../envoy.test-helper.js'
import { quotaMethod } from '../grpc/grpc-service.js'
import { REPORT_BYTES_MAX } from './quota-messages.js'
import { STREAMS_MAX } from './quota-service.js'
import { type OpenQuotas, openQuotas, type OpenQuotasOptions } from './quotas.test-helper.js'

const SERVICE = 'envoy.service.rate_limit_quota.v3.RateLimitQuotaService'
const RULES = [
  { id: 'user', by: ['user'], limits: [{ algorithm: 'fixed-window', max: 100, window: '1h' }] },
]

let redis: RedisServer

beforeAll(async () => {
  redis = await startRedis()
})

afterAll(async () => {
  await redis.stop()
})

closeAfterEach()

async function start(options: Partial<OpenQuotasOptions> = {}) {
  const quotas = await openQuotas({ rules: RULES, ...options })
  closeAfterTest(() => quotas.close())
  const { target } = await startGrpc({ streams: [quotaMethod(quotas.service)] })
  return { quotas, target, open: () => openStream(target) }
}

function openStream(target: string) {
  const stream = new TestClient(target).stream(SERVICE, 'StreamRateLimitQuotas')
  const responses: unknown[] = []
  const ended: { code?: number; details?: string; isEnded?: boolean } = {}
  stream.on('data', (response) => responses.push(response))
  stream.on('error', ({ code, details }: { code: number; details: string }) => {
    Object.assign(ended, { code, details })
  })
  stream.on('end', () => Object.assign(ended, { isEnded: true }))
  const report = (user: string, allowed: number, denied = 0, domain = 'shop') =>
    stream.write({
      domain,
      bucket_quota_usages: [
        {
          bucket_id: { bucket: { user } },
          time_elapsed: { seconds: 5 },
          num_requests_allowed: allowed,
          num_requests_denied: denied,
        },
      ],
    })
  return { stream, responses, ended, report }
}

const leaseOf = (calls: number) => ({
  bucket_id: { bucket: { user: 'u1' } },
  quota_assignment_action: {
    assignment_time_to_live: { seconds: 5 },
    rate_limit_strategy: { token_bucket: { max_tokens: calls } },
  },
})

async function leftOf({ limiter }: OpenQuotas): Promise<number | null> {
  const { remaining } = await limiter.peek({ attributes: { domain: 'shop', user: 'u1' } })
  return remaining
}

const stores = [
  ['memory', () => ({})],
  [
    'Redis',
    () => {
      const clock = manualClock()
      const scheduler = manualScheduler()
      const makeStore = async () => {
        const { url } = redis
        const store = redisStore({ url, prefix: 'quotas', clock, deadlineMs: 5000 })
        await store.ready
        return store
      }
      return { scheduler, makeStore }
    },
  ],
] as const

describe.each(stores)('over %s', (_, optionsOf) => {
  test('a report is answered with an assignment, and usage is charged', async () => {
    const { quotas, open } = await start(optionsOf())
    const { responses, report } = open()
    report('u1', 1)
    await eventually(() => responses).toHaveLength(1)
    // A refusal of everything comes first, so that the lease begins full.
    expect(responses[0]).toMatchObject({ bucket_action: [{}, leaseOf(50)] })
    expect(await leftOf(quotas)).toBe(49)
    await quotas.scheduler.advance(1000)
    report('u1', 50, 7)
    await eventually(() => responses).toHaveLength(2)
    expect(responses[1]).toMatchObject({ bucket_action: [{}, leaseOf(49)] })
    expect(await leftOf(quotas)).toBe(0)
    expect(quotas.metric('reported_calls_total{result="allowed"}')).toBe(51)
    expect(quotas.metric('reported_calls_total{result="denied"}')).toBe(7)
    expect(quotas.errors).toEqual([])
  })
})

/** The most rounds until a limit is used up; far fewer are needed. */
const ROUNDS_MAX = 300

test('two nodes that share a Redis draw exactly the limit for their proxies', async () => {
  const prefix = 'two-nodes'
  const clock = manualClock()
  const open = async () => {
    const makeStore = async () => {
      const store = redisStore({ url: redis.url, prefix, clock, deadlineMs: 5000, denyCacheMs: 0 })
      await store.ready
      return store
    }
    const quotas = await openQuotas({ rules: RULES, makeStore, fleetSize: 2 })
    closeAfterTest(() => quotas.close())
    return quotas
  }
  const nodes = [await open(), await open()] as const
  const options = { fallback: 'deny', domain: 'shop' } as const
  const proxies = nodes.flatMap((node) => [node.connect(options), node.connect(options)])
  const round = async (number: number) => {
    for (const proxy of proxies) proxy.calls({ user: 'u1' }, 3)
    for (const proxy of proxies) if (number % 10 === 9) proxy.report()
    for (const node of nodes) {
      await node.scheduler.advance(500)
      // What was sent before has been answered when this is.
      await node.limiter.peek({ attributes: { domain: 'shop', user: 'u1' } })
    }
  }
  const allowed = () => proxies.reduce((sum, { allowedAtMs }) => sum + allowedAtMs.length, 0)
  let rounds = 0
  for (; allowed() < 100 && rounds < ROUNDS_MAX; rounds++) await round(rounds)
  expect(allowed()).toBe(100)
  for (let more = 0; more < 20; more++) await round(rounds + more)
  expect(allowed()).toBe(100)
  for (const { errors } of nodes) expect(errors).toEqual([])
})

describe('a stream', () => {
  test('that its client ends gives up its buckets', async () => {
    const { quotas, open } = await start()
    const { stream, responses, ended, report } = open()
    report('u1', 1)
    await eventually(() => responses).toHaveLength(1)
    expect(quotas.metric('streams')).toBe(1)
    stream.end()
    await eventually(() => ended).toEqual({ isEnded: true })
    expect(quotas.metric('streams')).toBe(0)
    expect(quotas.metric('buckets')).toBe(0)
  })

  test('that is cancelled, too', async () => {
    const { quotas, open } = await start()
    const { stream, responses, report } = open()
    report('u1', 1)
    await eventually(() => responses).toHaveLength(1)
    stream.cancel()
    await eventually(() => quotas.metric('streams')).toBe(0)
    expect(quotas.metric('leased_calls_total{fate="lost"}')).toBe(50)
  })

  test('is ended when the server stops', async () => {
    const { quotas, open } = await start()
    const { responses, ended, report } = open()
    report('u1', 1)
    await eventually(() => responses).toHaveLength(1)
    quotas.service.endStreams()
    await eventually(() => ended).toEqual({ isEnded: true })
  })

  test('with a report that says nothing is ended with INVALID_ARGUMENT', async () => {
    const { quotas, open } = await start()
    const { ended, report } = open()
    report('u1', 1, 0, '')
    await eventually(() => ended).toMatchObject({
      code: 3,
      details: 'domain: found none; accepted: a text in the first report',
    })
    expect(quotas.metric('streams')).toBe(0)
  })

  test('with a report that is too large is ended with RESOURCE_EXHAUSTED', async () => {
    const { open } = await start()
    const { ended, report } = open()
    report('u'.repeat(REPORT_BYTES_MAX), 1)
    await eventually(() => ended).toMatchObject({ code: 8 })
  })

  test('above the most that are open is refused', async () => {
    const { quotas, open } = await start()
    for (let i = 0; i < STREAMS_MAX; i++) quotas.service.open({ send: () => true, end() {} })
    const { ended, report } = open()
    report('u1', 1)
    await eventually(() => ended).toMatchObject({ code: 8 })
  })

  test('is UNIMPLEMENTED where only unary methods are served', async () => {
    const { target } = await startGrpc({ kind: 'own' })
    const { ended, report } = openStream(target)
    report('u1', 1)
    await eventually(() => ended).toMatchObject({ code: 12 })
  })
})

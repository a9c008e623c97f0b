/** The quota service and proxies that behave as Envoy, in memory. */
import { afterEach, describe, expect, test } from 'vitest'
import { manualScheduler, settle } from '../../../lib/manual-scheduler.test-helper.js'
import { RemoteMemory } from '../remote-memory.test-helper.js'
import {
  type OpenQuotas,
  openQuotas as open,
  type OpenQuotasOptions,
  type TestProxy,
} from './quotas.test-helper.js'

const USER = { user: 'u1' }
const fixed = (max: number, window: string) => ({ algorithm: 'fixed-window', max, window })
/** `100/hour` as a fixed window: nothing comes back before its end. */
const perUser = (limit: string | object, more: object = {}) => {
  const [max, unit] = typeof limit === 'string' ? limit.split('/') : []
  const limits = [typeof limit === 'string' ? fixed(Number(max), `1${unit?.[0]}`) : limit]
  return { id: 'per-user', by: ['user'], limits, ...more }
}
const bucket = (limit: string) => ({ id: 'per-user', by: ['user'], limits: [limit] })

const opened: OpenQuotas[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) {
    expect(each.errors).toEqual([])
    await each.close()
  }
})

async function openQuotas(options: OpenQuotasOptions): Promise<OpenQuotas> {
  const quotas = await open(options)
  opened.push(quotas)
  return quotas
}

interface Offered {
  readonly perSecond: number
  readonly seconds: number
  /** Envoy 1.40 reports every five seconds, whatever its configuration says. */
  readonly reportSeconds?: number
}

/** Calls every 100 ms and reports like Envoy. */
async function offer(
  { scheduler }: OpenQuotas,
  proxies: readonly TestProxy[],
  { perSecond, seconds, reportSeconds = 5 }: Offered,
): Promise<number> {
  let allowed = 0
  // The first call of a bucket, which is decided before there is an assignment.
  for (const proxy of proxies) {
    if (!proxy.has(USER)) allowed += proxy.calls(USER, 1)
    await settle()
  }
  for (let tenth = 0; tenth < seconds * 10; tenth++) {
    for (const proxy of proxies) {
      allowed += proxy.calls(USER, perSecond / 10)
      if (tenth % (10 * reportSeconds) === 10 * reportSeconds - 1) proxy.report()
    }
    await scheduler.advance(100)
  }
  return allowed
}

const tokens = (proxy: TestProxy) => proxy.strategyOf(USER)?.token_bucket?.max_tokens
const blanket = (proxy: TestProxy) => proxy.strategyOf(USER)?.blanket_rule

async function leftOf({ limiter }: OpenQuotas, attributes: object = USER): Promise<number> {
  const { remaining } = await limiter.peek({ attributes: { domain: 'shop', ...attributes } })
  return remaining ?? Number.NaN
}

describe('assignments', () => {
  test('the first report of a bucket is answered with a lease, which is charged', async () => {
    const quotas = await openQuotas({ rules: [perUser('100/hour')] })
    const proxy = quotas.connect()
    expect(proxy.call(USER)).toBe(true)
    await settle()
    expect(tokens(proxy)).toBe(50)
    // The call before the assignment, and the lease.
    expect(await leftOf(quotas)).toBe(49)
    expect(quotas.metric('held_calls')).toBe(50)
  })

  test('a proxy admits what its leases have, and never more than the limit', async () => {
    const quotas = await openQuotas({ rules: [perUser('100/hour')] })
    const proxy = quotas.connect()
    expect(await offer(quotas, [proxy], { perSecond: 50, seconds: 30 })).toBe(100)
    expect(proxy.call(USER)).toBe(false)
    expect(await leftOf(quotas)).toBe(0)
  })

  test.each([1, 5])(
    'with reports every %i s a limit that refills is used',
    async (reportSeconds) => {
      const quotas = await openQuotas({ rules: [bucket('20/second')] })
      const proxy = quotas.connect()
      await offer(quotas, [proxy], { perSecond: 50, seconds: 5, reportSeconds })
      const allowed = await offer(quotas, [proxy], { perSecond: 50, seconds: 30, reportSeconds })
      expect(allowed).toBeLessThanOrEqual(30 * 20 + 20)
      expect(allowed).toBeGreaterThan(0.9 * 30 * 20)
    },
  )

  test.each([
    [1, 10],
    [1, 50],
    [1, 80],
    [5, 10],
    [5, 50],
    [5, 80],
  ])(
    'with reports every %i s a proxy at %i calls of 100 a second is not refused',
    async (...values) => {
      const [reportSeconds, perSecond] = values
      const quotas = await openQuotas({ rules: [bucket('100/second')] })
      const proxy = quotas.connect()
      const options = { perSecond, seconds: 40, reportSeconds }
      expect(await offer(quotas, [proxy], options)).toBe(40 * perSecond + 1)
    },
  )

  test('several proxies share a limit', async () => {
    const quotas = await openQuotas({ rules: [perUser('300/hour')] })
    const proxies = [quotas.connect(), quotas.connect(), quotas.connect()]
    const allowed = await offer(quotas, proxies, { perSecond: 20, seconds: 30 })
    expect(allowed).toBe(300)
    for (const { allowedAtMs } of proxies) expect(allowedAtMs.length).toBeGreaterThan(50)
  })

  test('proxies that come one after the other leave something for the next', async () => {
    const quotas = await openQuotas({ rules: [perUser('100/hour')] })
    const leases: unknown[] = []
    for (let i = 0; i < 6; i++) {
      const proxy = quotas.connect()
      proxy.call(USER)
      await settle()
      leases.push(tokens(proxy))
    }
    expect(leases).toEqual([50, 13, 5, 3, 2, 1])
  })

  test('buckets that share a counter share it as proxies do', async () => {
    const quotas = await openQuotas({ rules: [{ id: 'all', by: [], limits: [fixed(1000, '1h')] }] })
    const proxy = quotas.connect()
    const users = Array.from({ length: 100 }, (_, i) => ({ user: `u${i}` }))
    for (const user of users) {
      proxy.call(user)
      await settle()
    }
    for (const user of users) expect(proxy.strategyOf(user)?.token_bucket).toBeDefined()
  })

  test('what a proxy did not spend goes back to the others', async () => {
    const quotas = await openQuotas({ rules: [perUser('100/hour')] })
    const [idle, busy] = [quotas.connect(), quotas.connect()]
    idle.call(USER)
    await settle()
    expect(tokens(idle)).toBe(50)
    expect(await offer(quotas, [busy], { perSecond: 50, seconds: 20 })).toBe(49)
    for (let second = 0; second < 40; second++) {
      idle.report()
      await quotas.scheduler.advance(1000)
    }
    expect(idle.has(USER)).toBe(false)
    expect(await offer(quotas, [busy], { perSecond: 50, seconds: 20 })).toBe(50)
    expect(await leftOf(quotas)).toBe(0)
  })

  test('the smallest of several limits binds, and no other is charged for more', async () => {
    const quotas = await openQuotas({
      rules: [perUser('10/hour'), { id: 'all', by: [], limits: [fixed(1000, '1h')] }],
    })
    const proxy = quotas.connect()
    expect(await offer(quotas, [proxy], { perSecond: 50, seconds: 20 })).toBe(10)
    expect(await leftOf(quotas, {})).toBe(990)
  })

  test('a rule that counts several units for each call is charged so', async () => {
    const quotas = await openQuotas({ rules: [perUser('100/hour', { cost: 10 })] })
    const proxy = quotas.connect()
    expect(await offer(quotas, [proxy], { perSecond: 10, seconds: 20 })).toBe(10)
  })

  test('a bucket without a limit is allowed, or refused where the domain requires a match', async () => {
    const domains = new Map([['strict', { requireMatch: true }]])
    const quotas = await openQuotas({
      rules: [perUser('5/hour', { match: { path: '/x' } })],
      domains,
    })
    const [proxy, strict] = [quotas.connect(), quotas.connect({ domain: 'strict' })]
    proxy.call(USER)
    strict.call(USER)
    await settle()
    expect(blanket(proxy)).toBe('ALLOW_ALL')
    expect(blanket(strict)).toBe('DENY_ALL')
    await offer(quotas, [proxy, strict], { perSecond: 10, seconds: 10 })
    expect(blanket(proxy)).toBe('ALLOW_ALL')
    expect(blanket(strict)).toBe('DENY_ALL')
  })

  test('a caller that has nothing left is refused, until the limit has room', async () => {
    const quotas = await openQuotas({ rules: [bucket('5/minute')] })
    await quotas.limiter.check({ attributes: { domain: 'shop', ...USER }, cost: 5 })
    const proxy = quotas.connect({ fallback: 'deny' })
    expect(proxy.call(USER)).toBe(false)
    await settle()
    expect(blanket(proxy)).toBe('DENY_ALL')
    await offer(quotas, [proxy], { perSecond: 10, seconds: 20 })
    expect(proxy.allowedAtMs.length).toBeGreaterThan(0)
    const first = proxy.allowedAtMs[0] ?? 0
    expect(first).toBeGreaterThan(11_000)
    expect(first).toBeLessThan(16_000)
  })

  test('rules in shadow refuse nothing and count what is reported', async () => {
    const quotas = await openQuotas({ rules: [perUser('5/hour', { mode: 'shadow' })] })
    const proxy = quotas.connect()
    expect(await offer(quotas, [proxy], { perSecond: 10, seconds: 5 })).toBe(51)
    expect(quotas.decisions.some(({ decision }) => decision.shadow.includes('per-user'))).toBe(true)
  })

  test('in shadow mode nothing is refused, and everything is counted', async () => {
    const quotas = await openQuotas({ rules: [perUser('20/hour')], isShadow: true })
    const proxy = quotas.connect()
    expect(await offer(quotas, [proxy], { perSecond: 10, seconds: 10 })).toBeGreaterThanOrEqual(20)
    expect(await leftOf(quotas)).toBe(0)
  })

  test('metrics and statistics see leases and what was spent beyond them', async () => {
    const quotas = await openQuotas({ rules: [perUser('100/hour')] })
    const proxy = quotas.connect()
    proxy.call(USER)
    await settle()
    expect(quotas.decisions.map(({ decision, call }) => [decision.allowed, call.cost])).toEqual([
      [true, 1],
      [true, 50],
    ])
    expect(quotas.decisions[0]?.call.attributes).toEqual({ domain: 'shop', user: 'u1' })
  })

  test('remote_address is the ip of rules', async () => {
    const quotas = await openQuotas({ rules: [{ id: 'ip', by: ['ip'], limits: [fixed(4, '1h')] }] })
    const proxy = quotas.connect()
    proxy.call({ remote_address: '192.0.2.7' })
    await settle()
    expect(await leftOf(quotas, { ip: '192.0.2.7' })).toBe(1)
  })
})

describe('time', () => {
  test('an assignment is renewed while its bucket is used', async () => {
    const quotas = await openQuotas({ rules: [perUser('10/hour')] })
    const proxy = quotas.connect({ fallback: 'deny' })
    proxy.call(USER)
    for (let second = 0; second < 25; second++) {
      await quotas.scheduler.advance(1000)
      proxy.call(USER)
      expect(proxy.strategyOf(USER)).toBeDefined()
      if (second % 5 === 0) proxy.report()
    }
  })

  test('a renewal does not fill a lease again', async () => {
    const quotas = await openQuotas({ rules: [perUser('8/hour')] })
    const proxy = quotas.connect()
    let allowed = proxy.calls(USER, 1)
    for (let second = 0; second < 40; second++) {
      await settle()
      allowed += proxy.calls(USER, 2)
      await quotas.scheduler.advance(1000)
      proxy.report()
    }
    expect(allowed).toBe(8)
  })

  test('a lease that was not renewed in time is not filled again', async () => {
    const still = manualScheduler()
    let lateMs = 0
    const scheduler = {
      ...still,
      after: (ms: number, run: () => void) => still.after(ms + lateMs, run),
    }
    const quotas = await openQuotas({ rules: [perUser('100/hour')], scheduler })
    const proxy = quotas.connect({ fallback: 'deny' })
    proxy.call(USER)
    await settle()
    expect(proxy.calls(USER, 50)).toBe(50)
    // The process stands still until after the assignment has expired.
    lateMs = 6000
    await scheduler.advance(500)
    expect(proxy.strategyOf(USER)).toBeDefined()
    await scheduler.advance(5500)
    expect(proxy.strategyOf(USER)).toBeUndefined()
    await scheduler.advance(1000)
    proxy.calls(USER, 100)
    expect(proxy.allowedAtMs.length).toBeLessThanOrEqual(
      quotas.metric('leased_calls_total{fate="drawn"}'),
    )
  })

  test('at the end of a window a lease of the next one replaces the old', async () => {
    const quotas = await openQuotas({
      rules: [perUser(fixed(10, '10s'))],
    })
    const proxy = quotas.connect()
    for (let window = 0; window < 5; window++) {
      const allowed = await offer(quotas, [proxy], { perSecond: 10, seconds: 10 })
      expect(allowed).toBeGreaterThanOrEqual(window === 0 ? 9 : 8)
      expect(allowed).toBeLessThanOrEqual(10)
    }
  })

  test('a bucket that is not used is abandoned, and its units go back', async () => {
    const quotas = await openQuotas({ rules: [perUser('100/hour')] })
    const proxy = quotas.connect()
    proxy.call(USER)
    for (let second = 0; second < 16; second++) {
      await quotas.scheduler.advance(1000)
      proxy.report()
    }
    await settle()
    expect(proxy.has(USER)).toBe(false)
    expect(quotas.metric('buckets')).toBe(0)
    expect(await leftOf(quotas)).toBe(99)
    // The next call begins anew.
    expect(proxy.call(USER)).toBe(true)
    await settle()
    expect(tokens(proxy)).toBe(50)
  })
})

describe('streams', () => {
  test('what the proxy of a lost stream holds stays charged', async () => {
    const quotas = await openQuotas({ rules: [perUser('100/hour')] })
    const proxy = quotas.connect()
    proxy.call(USER)
    await settle()
    proxy.disconnect()
    await quotas.scheduler.advance(60_000)
    expect(await leftOf(quotas)).toBe(49)
    expect(quotas.metric('leased_calls_total{fate="lost"}')).toBe(50)
    expect(quotas.metric('streams')).toBe(0)
    // It may spend what it holds, and reports that on its next stream.
    proxy.connect()
    proxy.report()
    await settle()
    expect(quotas.metric('streams')).toBe(1)
  })

  test('a proxy that loses its server falls back when its assignment has expired', async () => {
    const quotas = await openQuotas({ rules: [perUser('100/hour')] })
    const proxy = quotas.connect({ fallback: 'deny' })
    proxy.call(USER)
    await settle()
    quotas.service.endStreams()
    expect(proxy.ended).toBe('ended')
    expect(proxy.calls(USER, 60)).toBe(50)
    await quotas.scheduler.advance(5000)
    expect(proxy.strategyOf(USER)).toBeUndefined()
  })

  test('a second domain on one stream ends it', async () => {
    const quotas = await openQuotas({ rules: [perUser('100/hour')] })
    const end: unknown[] = []
    const handler = quotas.service.open({ send: () => true, end: (error) => void end.push(error) })
    const first = Buffer.from('0a0161', 'hex')
    handler.onMessage(first)
    handler.onMessage(first)
    expect(() => handler.onMessage(Buffer.from('0a0162', 'hex'))).toThrow(
      'domain: found another one; accepted: one domain for each stream',
    )
    expect(() =>
      quotas.service.open({ send: () => true, end() {} }).onMessage(new Uint8Array()),
    ).toThrow('domain: found none; accepted: a text in the first report')
  })

  test('a domain with a configuration of envoyproxy/ratelimit has no quotas', async () => {
    const configSource = { current: () => ({ domains: new Map([['taken', {} as never]]) }) }
    const quotas = await openQuotas({ rules: [perUser('100/hour')], configSource })
    const proxy = quotas.connect({ domain: 'taken' })
    proxy.call(USER)
    await settle()
    expect(String(proxy.ended)).toContain('this domain is decided by its envoyproxy/ratelimit')
    expect(proxy.ended).toMatchObject({ grpcCode: 9 })
  })
})

describe('buckets that are not kept', () => {
  test('above the most are abandoned and counted, and those that end make room', async () => {
    const quotas = await openQuotas({ rules: [perUser('100/hour')], maxBuckets: 2 })
    const proxies = [quotas.connect(), quotas.connect()] as const
    for (const user of ['a', 'b', 'c']) proxies[0].call({ user })
    await settle()
    expect(proxies[0].strategyOf({ user: 'b' })).toBeDefined()
    expect(proxies[0].has({ user: 'c' })).toBe(false)
    expect(await leftOf(quotas, { user: 'c' })).toBe(99)
    expect(quotas.metric('buckets')).toBe(2)
    expect(quotas.metric('buckets_refused_total')).toBe(1)
    proxies[0].disconnect()
    proxies[1].call({ user: 'c' })
    await settle()
    expect(proxies[1].strategyOf({ user: 'c' })).toBeDefined()
  })

  test('a proxy has no more than fit into a report', async () => {
    const quotas = await openQuotas({ rules: [{ id: 'all', by: [], limits: [fixed(5000, '1h')] }] })
    const proxy = quotas.connect()
    const long = 'x'.repeat(1000)
    for (let i = 0; i < 300; i++) proxy.call({ user: `${long}${i}` })
    for (let i = 0; i < 20; i++) await settle()
    expect(quotas.metric('buckets')).toBeGreaterThan(240)
    expect(quotas.metric('buckets')).toBeLessThan(260)
    expect(await leftOf(quotas)).toBeLessThan(5000 - 300)
  })

  test('text that is not UTF-8 is counted, and ends no stream', async () => {
    const quotas = await openQuotas({ rules: [{ id: 'all', by: [], limits: [fixed(10, '1h')] }] })
    const sent: Uint8Array[] = []
    const handler = quotas.service.open({
      send: (message) => sent.push(message) > 0,
      end: (error) => expect(error).toBeUndefined(),
    })
    // Domain "a"; a bucket of "u" and the byte ff; three calls were allowed.
    handler.onMessage(
      Buffer.from('0a016112 0c0a080a060a0175120 1ff1803'.replaceAll(' ', ''), 'hex'),
    )
    await settle()
    expect(sent).toEqual([])
    expect(quotas.metric('buckets_refused_total')).toBe(1)
    expect(await leftOf(quotas)).toBe(7)
  })
})

test('a proxy that reads slowly is sent only the latest of each bucket when it has read', async () => {
  const quotas = await openQuotas({ rules: [perUser('100/hour')] })
  let sent = 0
  const handler = quotas.service.open({ send: () => ++sent === 0, end: () => {} })
  const report = Buffer.from('0a016112 0e0a0a0a080a0475736572120 0 1801'.replaceAll(' ', ''), 'hex')
  handler.onMessage(report)
  await settle()
  expect(sent).toBe(1)
  await quotas.scheduler.advance(20_000)
  expect(sent).toBe(1)
  handler.onDrained?.()
  await settle()
  expect(sent).toBe(2)
})

test('nothing is drawn for a proxy that does not read', async () => {
  const quotas = await openQuotas({ rules: [perUser(fixed(100, '10s'))] })
  const handler = quotas.service.open({ send: () => false, end: () => {} })
  handler.onMessage(Buffer.from('0a0161120f0a0b0a090a04757365721201301801', 'hex'))
  await settle()
  expect(quotas.metric('leased_calls_total{fate="drawn"}')).toBe(50)
  await quotas.scheduler.advance(60_000)
  expect(quotas.metric('leased_calls_total{fate="drawn"}')).toBe(50)
  handler.onDrained?.()
  await settle()
  expect(quotas.metric('leased_calls_total{fate="drawn"}')).toBe(100)
})

test('each refusal of a lease is a decision, although a limit has room for fewer calls', async () => {
  const leaky = { algorithm: 'leaky-bucket', max: 10, window: '1m' }
  const quotas = await openQuotas({ rules: [perUser(leaky)] })
  const proxy = quotas.connect({ fallback: 'deny' })
  await offer(quotas, [proxy], { perSecond: 10, seconds: 10 })
  const refused = quotas.decisions.filter(({ decision }) => !decision.allowed)
  expect(refused.length).toBeGreaterThan(1)
})

describe('a store that does not answer', () => {
  const openRemote = async (posture: unknown) => {
    let remote: RemoteMemory | undefined
    const quotas = await openQuotas({
      rules: [perUser('100/hour', { posture })],
      makeStore: (clock) => (remote = new RemoteMemory(clock, 0)),
    })
    if (remote === undefined) throw new Error('no store')
    return { quotas, remote }
  }

  test('with posture open all calls pass', async () => {
    const { quotas, remote } = await openRemote('open')
    remote.isSilent = true
    const proxy = quotas.connect({ fallback: 'deny' })
    proxy.call(USER)
    await settle()
    expect(blanket(proxy)).toBe('ALLOW_ALL')
    remote.isSilent = false
    await offer(quotas, [proxy], { perSecond: 10, seconds: 6 })
    expect(tokens(proxy)).toBeGreaterThan(0)
  })

  test('with posture closed none pass, until it answers', async () => {
    const { quotas, remote } = await openRemote('closed')
    remote.isSilent = true
    const proxy = quotas.connect()
    proxy.call(USER)
    await settle()
    expect(blanket(proxy)).toBe('DENY_ALL')
    remote.isSilent = false
    await offer(quotas, [proxy], { perSecond: 10, seconds: 6 })
    expect(tokens(proxy)).toBeGreaterThan(0)
  })

  test('with posture local a node admits its share of the limit', async () => {
    const { quotas, remote } = await openRemote({ local: 0.1 })
    remote.isSilent = true
    const proxy = quotas.connect({ fallback: 'deny' })
    const allowed = await offer(quotas, [proxy], { perSecond: 50, seconds: 20 })
    expect(allowed).toBeGreaterThanOrEqual(9)
    expect(allowed).toBeLessThanOrEqual(11)
  })

  test('a lease that was drawn before is spent', async () => {
    const { quotas, remote } = await openRemote('closed')
    const proxy = quotas.connect()
    proxy.call(USER)
    await settle()
    remote.isSilent = true
    await quotas.scheduler.advance(2000)
    expect(proxy.calls(USER, 60)).toBe(50)
  })
})

/** Limits with `block`: a caller that goes over is refused for that long, longer each time. */
import { describe, expect, test } from 'vitest'
import { createLimiter, memoryStore, type Limiter, rateLimitHeaders } from './index.js'
import { scripted } from './scripted-store.test-helper.js'
import { manualClock } from './testing/index.js'

const MINUTE = 60_000
const GROWING = { first: '1m', factor: 2, max: '3m', forget: '1h' }
const login = (block: unknown, more: object = {}) => ({
  id: 'login',
  by: ['ip'],
  limits: [{ algorithm: 'fixed-window', start: 'call', max: 2, window: '10s', block }],
  ...more,
})
const from = (ip = '192.0.2.1', cost = 1) => ({ attributes: { ip }, cost })

function open(rules: readonly unknown[]) {
  const clock = manualClock(1_767_225_600_000_000)
  const store = memoryStore({ clock })
  return { clock, store, limiter: createLimiter({ rules, clock, store }) }
}

/** Spends what is left, and returns the refusal that begins a block. */
async function goOver(limiter: Limiter, ip?: string) {
  for (;;) {
    const decision = await limiter.check(from(ip))
    if (!decision.allowed) return decision
  }
}

describe('a limit with a block', () => {
  test('a caller that goes over is refused until the block ends, though its limit has room', async () => {
    const { limiter, clock } = open([login('15m')])
    expect(await goOver(limiter)).toMatchObject({
      reason: 'blocked',
      rule: 'login',
      limit: 2,
      remaining: 0,
      resetAfterMs: 15 * MINUTE,
      retryAfterMs: 15 * MINUTE,
    })
    clock.advance(15 * MINUTE - 1)
    expect(await limiter.check(from())).toMatchObject({ reason: 'blocked', retryAfterMs: 1 })
    expect((await limiter.check(from('192.0.2.2'))).allowed).toBe(true)
    clock.advance(1)
    expect(await limiter.check(from())).toMatchObject({ allowed: true, remaining: 1 })
  })

  test('calls during a block do not lengthen it', async () => {
    const { limiter, clock } = open([login('1m')])
    await goOver(limiter)
    clock.advance(30_000)
    expect((await limiter.check(from())).retryAfterMs).toBe(30_000)
    clock.advance(30_000)
    expect((await limiter.check(from())).allowed).toBe(true)
  })

  test('blocks in a row grow up to the longest, and are forgotten after a while', async () => {
    const { limiter, clock } = open([login(GROWING)])
    for (const minutes of [1, 2, 3, 3]) {
      expect((await goOver(limiter)).retryAfterMs).toBe(minutes * MINUTE)
      clock.advance(minutes * MINUTE)
    }
    clock.advance(60 * MINUTE)
    expect((await goOver(limiter)).retryAfterMs).toBe(MINUTE)
  })

  test('headers state the end of the block, and one limit', async () => {
    const { limiter } = open([login('15m')])
    const headers = Object.fromEntries(
      rateLimitHeaders(await goOver(limiter), { nowMs: 1_767_225_600_000 }),
    )
    expect(headers).toMatchObject({
      'Retry-After': '900',
      RateLimit: '"login";r=0;t=900',
      'RateLimit-Policy': '"login";q=2;w=10',
      'X-RateLimit-Remaining': '0',
      'X-RateLimit-Reset': String(1_767_225_600 + 900),
    })
  })

  test('explain states until when the caller is blocked and how many times it was', async () => {
    const { limiter, clock } = open([login(GROWING)])
    const blockOf = async () => (await limiter.explain(from())).explain?.[0]?.limits[0]?.block
    expect(await blockOf()).toEqual({ untilMs: null, times: 0 })
    await goOver(limiter)
    clock.advance(MINUTE)
    expect(await blockOf()).toEqual({ untilMs: null, times: 1 })
    await goOver(limiter)
    expect(await blockOf()).toEqual({ untilMs: clock.now() / 1000 + 2 * MINUTE, times: 2 })
    const { explain = [], reason } = await limiter.explain(from())
    expect([reason, explain[0]?.limits.length]).toEqual(['blocked', 1])
  })

  test('a reset lifts a block', async () => {
    const { limiter } = open([login('15m')])
    await goOver(limiter)
    await limiter.reset(from())
    expect(await limiter.check(from())).toMatchObject({ allowed: true, remaining: 1 })
  })

  test('another max keeps a block', async () => {
    const { limiter } = open([login('15m')])
    await goOver(limiter)
    limiter.setRules([
      login('15m', {
        limits: [
          { algorithm: 'fixed-window', start: 'call', max: 50, window: '10s', block: '15m' },
        ],
      }),
    ])
    expect(await limiter.check(from())).toMatchObject({ reason: 'blocked', limit: 50 })
  })

  test('a refusal by another rule, a cost of 0 and a cost that never fits begin no block', async () => {
    const { limiter } = open([login('15m'), { id: 'all', by: [], limits: ['1/hour'] }])
    expect((await limiter.check(from())).allowed).toBe(true)
    expect(await limiter.check(from())).toMatchObject({ reason: 'over', rule: 'all' })
    expect(await limiter.check(from('192.0.2.1', 3))).toMatchObject({
      reason: 'cost_exceeds_limit',
    })
    const { explain = [] } = await limiter.explain(from())
    expect(explain[0]?.limits[0]?.block).toEqual({ untilMs: null, times: 0 })
    expect((await limiter.check(from('192.0.2.1', 0))).allowed).toBe(true)
  })

  test('a receipt returns the units of the limit', async () => {
    const { limiter } = open([login('15m')])
    const { receipt = '' } = await limiter.check(from(), { receipt: true })
    await limiter.refund(receipt)
    expect((await limiter.check(from())).remaining).toBe(1)
  })

  test('a shadow rule and a candidate only report that they would block', async () => {
    const { limiter } = open([
      login('15m', { mode: 'shadow' }),
      {
        ...login('15m'),
        id: 'new',
        limits: ['100/second'],
        candidate: { limits: login('1m').limits },
      },
    ])
    for (let n = 0; n < 2; n++) await limiter.check(from())
    const decision = await limiter.check(from())
    expect(decision.allowed).toBe(true)
    expect(decision.shadow).toEqual(['login', 'new:candidate'])
    const waits = decision.shadowRefusals().map(({ retryAfterMs }) => retryAfterMs)
    expect(waits).toEqual([15 * MINUTE, MINUTE])
  })

  test('a durable rule keeps a block and its number in a row across a restart', async () => {
    const rules = [login(GROWING, { durable: true })]
    const { clock, store } = open(rules)
    // The keys of counters depend on the secret, which a restart keeps.
    const secret = new Uint8Array(16)
    const before = createLimiter({ rules, clock, store, secret })
    await goOver(before)
    clock.advance(MINUTE)
    await goOver(before)
    const restarted = memoryStore({ clock })
    expect(restarted.restore(store.snapshot())).toBe(2)
    const after = createLimiter({ rules, clock, store: restarted, secret })
    expect(await after.check(from())).toMatchObject({
      reason: 'blocked',
      retryAfterMs: 2 * MINUTE,
    })
    expect((await after.check(from('192.0.2.2'))).allowed).toBe(true)
    clock.advance(2 * MINUTE)
    expect((await goOver(after)).retryAfterMs).toBe(3 * MINUTE)
    await after.reset(from())
    expect((await after.check(from())).allowed).toBe(true)
  })

  test.each([
    'token-bucket',
    'gcra',
    'leaky-bucket',
    'fixed-window',
    'sliding-window-counter',
    'sliding-window-log',
  ])('a block works beside a %s', async (algorithm) => {
    const limits = [{ algorithm, max: 1, window: '1s', block: '15m' }]
    const { limiter } = open([login('', { limits })])
    expect(await goOver(limiter)).toMatchObject({ reason: 'blocked', retryAfterMs: 15 * MINUTE })
  })
})

describe('a block in a remote store', () => {
  test('a blocked caller costs one request in a second', async () => {
    const { limiter, store, clock } = await scripted([login('15m')], { denyCacheMs: 1000 })
    await goOver(limiter)
    const before = store.requests.length
    for (let n = 0; n < 9; n++) {
      clock.advance(100)
      expect(await limiter.check(from())).toMatchObject({ reason: 'blocked', source: 'deny-cache' })
    }
    expect(store.requests.length).toBeLessThanOrEqual(before + 1)
  })
})

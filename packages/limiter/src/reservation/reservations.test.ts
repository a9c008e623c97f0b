/** Reservations on a memory store: what is taken, settled, extended, cancelled, and when. */
import { describe, expect, test } from 'vitest'
import { createLimiter, memoryStore } from '../index.js'
import { limiterOf } from '../limiter.test-helper.js'
import { FakeScheduler } from '../redis/connection/channel.test-helper.js'
import { manualClock } from '../testing/index.js'

const TOKENS = { attribute: 'tokens' }
const window = (max: number, more: object = {}) => ({
  algorithm: 'fixed-window',
  max,
  window: '1h',
  ...more,
})
const tokens = (max: number, more: object = {}) => ({
  id: 'tokens',
  by: ['user'],
  limits: [window(max)],
  cost: TOKENS,
  ...more,
})
const requests = (max: number) => ({ id: 'requests', by: ['user'], limits: [window(max)] })
const callOf = (units: number, more: object = {}) => ({
  attributes: { user: 'u1', tokens: units, ...more },
})

async function leftOf(limiter: ReturnType<typeof limiterOf>['limiter'], rule: string) {
  const policies = await limiter.limits({ attributes: { user: 'u1' } })
  return policies.find((policy) => policy.rule === rule)?.remaining
}

describe('a reservation', () => {
  test('takes the estimate, and gives back what was not used', async () => {
    const { limiter } = limiterOf([tokens(1000)])
    const reservation = await limiter.reserve(callOf(800))
    expect(reservation).toMatchObject({ allowed: true, remaining: 200 })
    expect(await reservation.settle(300)).toEqual({
      settled: true,
      reason: 'settled',
      charged: 300,
      givenBack: 500,
      owed: 0,
      costs: { tokens: { charged: 300, givenBack: 500, owed: 0 } },
    })
    expect(await leftOf(limiter, 'tokens')).toBe(700)
  })

  test('has the fields of its decision and, if it was admitted, its handle in its JSON form', async () => {
    const { limiter } = limiterOf([tokens(1000)])
    const reservation = await limiter.reserve(callOf(800))
    const body = JSON.parse(JSON.stringify(reservation))
    expect(body).toMatchObject({ allowed: true, rule: 'tokens', reservation: expect.any(String) })
    expect(body.reservation).toBe(reservation.reservation)
    const decided = await limiter.check(callOf(0))
    expect(Object.keys(body)).toEqual([...Object.keys(decided), 'reservation'])
    const refused = JSON.parse(JSON.stringify(await limiter.reserve(callOf(800))))
    expect(Object.keys(refused)).toEqual(Object.keys(decided))
  })

  test('says what it holds of each cost, also after it was extended', async () => {
    const spend = { id: 'spend', by: [], limits: [window(90)], cost: { attribute: 'spend' } }
    const shared = { ...tokens(5000), id: 'all', by: [] }
    const { limiter } = limiterOf([requests(5), tokens(1000), shared, spend])
    const reservation = await limiter.reserve(callOf(800, { spend: 50, other: 7 }))
    expect(reservation.reserved()).toEqual({ cost: 1, tokens: 800, spend: 50 })
    const extended = await reservation.extend({ tokens: 100, spend: 10 })
    expect(extended.reserved()).toEqual({ cost: 1, tokens: 900, spend: 60 })
    const refused = await extended.extend({ spend: 500 })
    expect([refused.allowed, refused.reserved()]).toEqual([false, {}])
    expect(await extended.settle({ tokens: 1, spend: 2 })).toMatchObject({ settled: true })
  })

  test('charges what was used beyond the estimate', async () => {
    const { limiter } = limiterOf([tokens(1000)])
    const reservation = await limiter.reserve(callOf(100))
    expect(await reservation.settle(150)).toMatchObject({ charged: 150, givenBack: 0, owed: 0 })
    expect(await leftOf(limiter, 'tokens')).toBe(850)
  })

  test('owes what the limit did not have left, and refuses until that is paid', async () => {
    const { limiter, clock } = limiterOf([
      tokens(0, { limits: [{ algorithm: 'token-bucket', max: 100, window: '100s' }] }),
    ])
    const reservation = await limiter.reserve(callOf(100))
    expect(await reservation.settle(130)).toMatchObject({ charged: 130, owed: 30 })
    const refused = await limiter.check(callOf(1))
    expect(refused).toMatchObject({ allowed: false, retryAfterMs: 31_000 })
    clock.advance(31_000)
    expect((await limiter.check(callOf(1))).allowed).toBe(true)
  })

  test('drops what exceeds the debt of the limit', async () => {
    const { limiter } = limiterOf([tokens(0, { limits: [window(100, { debt: 20 })] })])
    const reservation = await limiter.reserve(callOf(100))
    expect(await reservation.settle(500)).toMatchObject({ charged: 120, owed: 20 })
  })

  test('is refused as a whole if one limit has no room, and then charges nothing', async () => {
    const { limiter } = limiterOf([tokens(1000), requests(1)])
    await limiter.check({ attributes: { user: 'u1', tokens: 0 } })
    const refused = await limiter.reserve(callOf(10))
    expect(refused).toMatchObject({ allowed: false, rule: 'requests' })
    expect(refused.reservation).toBeUndefined()
    expect(await leftOf(limiter, 'tokens')).toBe(1000)
    expect(await refused.settle(10)).toMatchObject({ settled: false, reason: 'refused' })
  })

  test('does not overdraw when it is refused, whatever onRefusal says', async () => {
    const limits = [window(100, { onRefusal: 'overdraw' })]
    const { limiter } = limiterOf([tokens(0, { limits })])
    expect((await limiter.reserve(callOf(150))).allowed).toBe(false)
    expect(await leftOf(limiter, 'tokens')).toBe(100)
  })

  test('changes only the costs that come from attributes, unless the cost is named', async () => {
    const { limiter } = limiterOf([tokens(1000), requests(10)])
    const first = await limiter.reserve(callOf(500))
    await first.settle(200)
    expect(await leftOf(limiter, 'requests')).toBe(9)
    const second = await limiter.reserve(callOf(500))
    await second.settle({ tokens: 100, cost: 0 })
    expect(await leftOf(limiter, 'requests')).toBe(9)
    expect(await leftOf(limiter, 'tokens')).toBe(700)
  })

  test('settles the cost of the call where no rule has a cost attribute', async () => {
    const { limiter } = limiterOf([{ ...requests(100), cost: 2 }])
    const reservation = await limiter.reserve({ attributes: { user: 'u1' }, cost: 10 })
    expect(await leftOf(limiter, 'requests')).toBe(80)
    expect(await reservation.settle(3)).toMatchObject({ charged: 6, givenBack: 14 })
    expect(await leftOf(limiter, 'requests')).toBe(94)
  })

  test('settles each cost attribute by its own number, and refuses one number for several', async () => {
    const output = { ...tokens(1000), id: 'output', cost: { attribute: 'output' } }
    const { limiter } = limiterOf([tokens(1000), output])
    const reservation = await limiter.reserve(callOf(500, { output: 400 }))
    await expect(reservation.settle(3)).rejects.toMatchObject({
      code: 'CALL_COST_INVALID',
      message: 'actual: found a number; accepted: one for each of tokens, output',
    })
    expect(await reservation.settle({ tokens: 500, output: 100 })).toMatchObject({
      charged: 600,
      givenBack: 300,
      costs: { tokens: { charged: 500 }, output: { charged: 100, givenBack: 300 } },
    })
  })

  test('refuses a cost that it does not have', async () => {
    const { limiter } = limiterOf([tokens(1000)])
    const reservation = await limiter.reserve(callOf(500))
    await expect(reservation.settle({ token: 3 })).rejects.toMatchObject({
      code: 'CALL_COST_INVALID',
      message: 'actual: found "token"; accepted: tokens, cost',
    })
    await expect(reservation.settle(1.5)).rejects.toMatchObject({ code: 'CALL_COST_INVALID' })
    await expect(reservation.settle(-1)).rejects.toMatchObject({ code: 'CALL_COST_INVALID' })
    expect(await reservation.settle(500)).toMatchObject({ settled: true })
  })

  test('is settled once: later calls change nothing and say so', async () => {
    const { limiter } = limiterOf([tokens(1000)])
    const reservation = await limiter.reserve(callOf(800))
    await reservation.settle(100)
    expect(await reservation.settle(100)).toMatchObject({
      settled: false,
      reason: 'already-settled',
      charged: 0,
    })
    expect(await reservation.cancel()).toMatchObject({ reason: 'already-settled' })
    expect(await leftOf(limiter, 'tokens')).toBe(900)
  })

  test('gives everything back when it is cancelled', async () => {
    const { limiter } = limiterOf([tokens(1000), requests(10)])
    const reservation = await limiter.reserve(callOf(800))
    expect(await reservation.cancel()).toMatchObject({
      settled: true,
      reason: 'cancelled',
      charged: 0,
      givenBack: 800,
    })
    expect(await leftOf(limiter, 'tokens')).toBe(1000)
    expect(await leftOf(limiter, 'requests')).toBe(10)
  })

  test('stays charged when it expires', async () => {
    const { limiter, clock } = limiterOf([tokens(1000)])
    const reservation = await limiter.reserve(callOf(800), { ttl: '10s' })
    clock.advance(10_001)
    expect(await reservation.settle(100)).toEqual({
      settled: false,
      reason: 'expired',
      charged: 800,
      givenBack: 0,
      owed: 0,
      costs: { tokens: { charged: 800, givenBack: 0, owed: 0 } },
    })
    expect(await leftOf(limiter, 'tokens')).toBe(200)
  })

  test('is given back when it expires, for rules with onExpiry: refund only', async () => {
    const clock = manualClock()
    const scheduler = new FakeScheduler()
    const rules = [tokens(1000, { onExpiry: 'refund' }), requests(10)]
    const limiter = createLimiter({ rules, clock, scheduler })
    const reservation = await limiter.reserve(callOf(800), { ttl: '10s' })
    clock.advance(11_000)
    await scheduler.advance(11_000)
    expect(await leftOf(limiter, 'tokens')).toBe(1000)
    expect(await leftOf(limiter, 'requests')).toBe(9)
    expect(await reservation.settle(100)).toMatchObject({ reason: 'expired' })
    expect(await leftOf(limiter, 'tokens')).toBe(1000)
  })

  test('is not given back at its expiry if it was settled before', async () => {
    const clock = manualClock()
    const scheduler = new FakeScheduler()
    const rules = [tokens(1000, { onExpiry: 'refund' })]
    const limiter = createLimiter({ rules, clock, scheduler })
    const reservation = await limiter.reserve(callOf(800), { ttl: '10s' })
    await reservation.settle(500)
    clock.advance(11_000)
    await scheduler.advance(11_000)
    expect(await leftOf(limiter, 'tokens')).toBe(500)
  })

  test('of a call that no rule matches can be settled, and changes nothing', async () => {
    const { limiter } = limiterOf([tokens(1000)])
    const reservation = await limiter.reserve({ attributes: { ip: '192.0.2.1' } })
    expect(reservation).toMatchObject({ allowed: true, reason: 'unmatched' })
    expect(await reservation.settle(5)).toMatchObject({ settled: true, charged: 0 })
  })

  test('counts shadow rules like enforced ones, without reporting them', async () => {
    const { limiter } = limiterOf([tokens(1000), tokens(1000, { id: 'shadow', mode: 'shadow' })])
    const reservation = await limiter.reserve(callOf(800))
    expect(await reservation.settle(100)).toMatchObject({ charged: 100, givenBack: 700 })
    const explained = await limiter.explain(callOf(0))
    const left = explained.explain?.map(({ limits }) => limits[0]?.remaining)
    expect(left).toEqual([900, 900])
  })

  test('keeps its counters when the limit was raised meanwhile', async () => {
    const { limiter } = limiterOf([tokens(1000)])
    const reservation = await limiter.reserve(callOf(800))
    limiter.setRules([tokens(5000)])
    await reservation.settle(100)
    expect(await leftOf(limiter, 'tokens')).toBe(4900)
  })

  test('of a rule that is gone is settled without it', async () => {
    const { limiter } = limiterOf([tokens(1000), requests(10)])
    const reservation = await limiter.reserve(callOf(800))
    limiter.setRules([requests(10)])
    expect(await reservation.settle(100)).toMatchObject({ settled: true })
  })

  test.each([100, 900])(
    'stays charged for a cost that no rule counts any more, whether %i of 800 were used',
    async (used) => {
      const { limiter } = limiterOf([tokens(1000), requests(10)])
      const reservation = await limiter.reserve(callOf(800))
      limiter.setRules([requests(10)])
      expect(await reservation.settle(used)).toMatchObject({
        costs: { tokens: { charged: 800, givenBack: 0, owed: 0 } },
      })
    },
  )

  test.each(['settle', 'cancel', 'extend'] as const)(
    'of units leaves the places alone that its limit counts now, if it is ended by %s',
    async (verb) => {
      const named = (limit: object) => [tokens(0, { limits: [{ ...limit, name: 'main' }] })]
      const { limiter } = limiterOf(named(window(10)))
      const reservation = await limiter.reserve(callOf(5))
      limiter.setRules(named({ algorithm: 'concurrency', max: 10 }))
      await limiter.reserve(callOf(1))
      if (verb === 'extend') await expect(reservation.extend({ tokens: 3 })).rejects.toThrow()
      else await (verb === 'settle' ? reservation.settle(2) : reservation.cancel())
      expect(await leftOf(limiter, 'tokens')).toBe(9)
    },
  )

  test('is not settled without saying what was used', async () => {
    const { limiter } = limiterOf([tokens(1000)])
    const reservation = await limiter.reserve(callOf(800))
    const nothing = undefined as unknown as number
    const settles = [
      () => reservation.settle(nothing),
      () => limiter.settle(reservation.reservation ?? '', nothing),
    ]
    for (const settle of settles) {
      await expect(settle()).rejects.toMatchObject({
        code: 'CALL_COST_INVALID',
        message: 'actual must be an integer between 0 and 2^53-1, got undefined',
      })
    }
    expect(await leftOf(limiter, 'tokens')).toBe(200)
  })
})

describe('a handle', () => {
  test('is settled by another limiter that shares store and secret', async () => {
    const clock = manualClock()
    const store = memoryStore({ clock })
    const secret = new Uint8Array(16).fill(7)
    const rules = [tokens(1000)]
    const first = createLimiter({ rules, clock, store, secret })
    const second = createLimiter({ rules, clock, store, secret })
    const { reservation = '' } = await first.reserve(callOf(800))
    expect(await second.settle(reservation, 100)).toMatchObject({ settled: true, charged: 100 })
    expect(await first.settle(reservation, 100)).toMatchObject({ reason: 'already-settled' })
    expect(await leftOf(second, 'tokens')).toBe(900)
  })

  test('that was changed, or made with another secret, is refused', async () => {
    const { limiter } = limiterOf([tokens(1000)])
    const { limiter: other } = limiterOf([tokens(1000)])
    const { reservation = '' } = await limiter.reserve(callOf(800))
    const forged = reservation.replace('tokens', 'requests')
    for (const [judge, text] of [
      [limiter, forged],
      [limiter, ''],
      [limiter, 'x'.repeat(100_000)],
      [other, reservation],
    ] as const) {
      await expect(judge.settle(text, 1)).rejects.toMatchObject({ code: 'RESERVATION_INVALID' })
      await expect(judge.cancel(text)).rejects.toMatchObject({ code: 'RESERVATION_INVALID' })
      await expect(judge.extend(text, { tokens: 1 })).rejects.toMatchObject({
        code: 'RESERVATION_INVALID',
      })
    }
  })

  test('is no receipt, and a receipt is no handle', async () => {
    const { limiter } = limiterOf([tokens(1000)])
    const { reservation = '' } = await limiter.reserve(callOf(800))
    const { receipt = '' } = await limiter.check(callOf(10), { receipt: true })
    await expect(limiter.refund(reservation)).rejects.toMatchObject({ code: 'RECEIPT_INVALID' })
    await expect(limiter.settle(receipt, 1)).rejects.toMatchObject({ code: 'RESERVATION_INVALID' })
  })
})

describe('an extension', () => {
  test('reserves more under the same handle, which is settled for all of it', async () => {
    const { limiter } = limiterOf([tokens(1000), requests(10)])
    const reservation = await limiter.reserve(callOf(300))
    const extended = await reservation.extend({ tokens: 200 })
    expect(extended).toMatchObject({ allowed: true, remaining: 500 })
    expect(await leftOf(limiter, 'requests')).toBe(9)
    expect(await extended.settle(450)).toMatchObject({ charged: 450, givenBack: 50 })
    expect(await leftOf(limiter, 'tokens')).toBe(550)
    expect(await reservation.settle(1)).toMatchObject({ reason: 'already-settled' })
  })

  test('is refused without a change when the budget is gone', async () => {
    const { limiter } = limiterOf([tokens(1000)])
    const reservation = await limiter.reserve(callOf(900))
    const refused = await reservation.extend({ tokens: 200 })
    expect(refused).toMatchObject({ allowed: false, reason: 'over', rule: 'tokens' })
    expect(refused.reservation).toBeUndefined()
    expect(await reservation.settle(900)).toMatchObject({ settled: true, charged: 900 })
  })

  test('lasts as long again as the reservation did at first', async () => {
    const { limiter, clock } = limiterOf([tokens(1000)])
    const reservation = await limiter.reserve(callOf(100), { ttl: '10s' })
    clock.advance(9000)
    const extended = await reservation.extend({ tokens: 100 })
    clock.advance(9000)
    expect(await extended.settle(150)).toMatchObject({ settled: true, charged: 150 })
  })

  test('of a reservation that has ended is refused with how it ended', async () => {
    const { limiter, clock } = limiterOf([tokens(1000)])
    const settled = await limiter.reserve(callOf(100))
    await settled.settle(50)
    await expect(settled.extend({ tokens: 1 })).rejects.toMatchObject({
      code: 'RESERVATION_ENDED',
    })
    const expired = await limiter.reserve(callOf(100), { ttl: 1000 })
    clock.advance(1001)
    await expect(expired.extend({ tokens: 1 })).rejects.toMatchObject({
      code: 'RESERVATION_ENDED',
    })
    expect(await leftOf(limiter, 'tokens')).toBe(850)
  })

  test('needs a cost of the reservation', async () => {
    const { limiter } = limiterOf([tokens(1000)])
    const reservation = await limiter.reserve(callOf(100))
    await expect(reservation.extend({ user: 'u1' })).rejects.toMatchObject({
      code: 'CALL_COST_INVALID',
      message: "attributes: found none of the reservation's costs; accepted: tokens",
    })
    await expect(reservation.extend({ tokens: 1.5 })).rejects.toMatchObject({
      code: 'CALL_COST_INVALID',
    })
  })
})

describe('a reserve with an idempotency key', () => {
  test('that is sent again gets the same reservation and is charged once', async () => {
    const { limiter } = limiterOf([tokens(1000)])
    const options = { idempotencyKey: 'request-1' }
    const first = await limiter.reserve(callOf(400), options)
    const again = await limiter.reserve(callOf(400), options)
    expect(again).toMatchObject({ allowed: true, reservation: first.reservation })
    expect(await leftOf(limiter, 'tokens')).toBe(600)
    expect(await again.settle(100)).toMatchObject({ settled: true, charged: 100 })
    expect(await first.settle(100)).toMatchObject({ reason: 'already-settled' })
    expect(await leftOf(limiter, 'tokens')).toBe(900)
  })

  test('is a reservation of its own for each caller and each key', async () => {
    const { limiter } = limiterOf([tokens(1000)])
    const other = { attributes: { user: 'u2', tokens: 400 } }
    await limiter.reserve(callOf(400), { idempotencyKey: 'a' })
    await limiter.reserve(callOf(400), { idempotencyKey: 'b' })
    expect((await limiter.reserve(other, { idempotencyKey: 'a' })).remaining).toBe(600)
    expect(await leftOf(limiter, 'tokens')).toBe(200)
  })

  test('can be tried again after a refusal', async () => {
    const { limiter } = limiterOf([tokens(1000)])
    const busy = await limiter.reserve(callOf(900))
    const options = { idempotencyKey: 'request-1' }
    expect((await limiter.reserve(callOf(400), options)).allowed).toBe(false)
    await busy.cancel()
    expect((await limiter.reserve(callOf(400), options)).allowed).toBe(true)
    expect(await leftOf(limiter, 'tokens')).toBe(600)
  })

  test('that is sent again with other costs is refused', async () => {
    const { limiter } = limiterOf([tokens(1000)])
    await limiter.reserve(callOf(400), { idempotencyKey: 'request-1' })
    await expect(
      limiter.reserve(callOf(500), { idempotencyKey: 'request-1' }),
    ).rejects.toMatchObject({ code: 'RESERVATION_DIFFERS' })
    expect(await leftOf(limiter, 'tokens')).toBe(600)
  })
})

describe('the options of reserve', () => {
  test.each([
    [
      { ttl: '2h' },
      'ttl: found 2h; accepted: a duration from 1s to 1h, such as 90s, or milliseconds',
    ],
    [
      { ttl: 10 },
      'ttl: found 10; accepted: a duration from 1s to 1h, such as 90s, or milliseconds',
    ],
    [
      { ttl: 'soon' },
      'ttl: found soon; accepted: a duration from 1s to 1h, such as 90s, or milliseconds',
    ],
    [
      { idempotencyKey: '' },
      'idempotencyKey: found empty text; accepted: text of 1 to 256 characters',
    ],
  ])('are refused if they are invalid: %j', async (options, message) => {
    const { limiter } = limiterOf([tokens(1000)])
    await expect(limiter.reserve(callOf(1), options)).rejects.toMatchObject({
      code: 'CALL_INVALID',
      message,
    })
  })
})

describe('places of a reservation', () => {
  const places = (max: number, more: object = {}) => ({
    id: 'in-flight',
    by: ['user'],
    limits: [{ algorithm: 'concurrency', max }],
    ...more,
  })

  function reserving(rules: readonly object[]) {
    const clock = manualClock()
    const scheduler = new FakeScheduler()
    const monotonicMs = () => clock.now() / 1000
    const limiter = createLimiter({ rules, clock, scheduler, monotonicMs })
    const advance = async (ms: number) => {
      for (let passed = 0; passed < ms; passed += 500) {
        clock.advance(500)
        await scheduler.advance(500)
      }
    }
    return { limiter, advance }
  }

  test.each([
    ['the store', {}],
    ['this process', { coordination: 'node' }],
  ])('that %s counts are free when it is settled or cancelled', async (_, more) => {
    const { limiter } = reserving([places(2, more), tokens(1000)])
    const first = await limiter.reserve(callOf(10))
    const second = await limiter.reserve(callOf(10))
    expect((await limiter.reserve(callOf(10))).allowed).toBe(false)
    expect(limiter.inFlight.get('in-flight')).toMatchObject({ inFlight: 2, max: 2 })
    await first.settle(10)
    expect(limiter.inFlight.get('in-flight')).toMatchObject({ inFlight: 1 })
    const third = await limiter.reserve(callOf(10))
    expect(third.allowed).toBe(true)
    await second.cancel()
    await third.cancel()
    expect(limiter.inFlight.get('in-flight')).toMatchObject({ inFlight: 0 })
    expect(await leftOf(limiter, 'in-flight')).toBe(2)
  })

  test('stay taken for longer than the lease, and are free when it expires', async () => {
    const { limiter, advance } = reserving([places(1)])
    await limiter.reserve({ attributes: { user: 'u1' } }, { ttl: '60s' })
    await advance(50_000)
    expect((await limiter.reserve({ attributes: { user: 'u1' } })).allowed).toBe(false)
    await advance(15_000)
    expect((await limiter.reserve({ attributes: { user: 'u1' } })).allowed).toBe(true)
  })

  test.each([
    ['the store', {}],
    ['this process', { coordination: 'node' }],
  ])('that %s counts are no cost when it ends', async (_, more) => {
    const { limiter, advance } = reserving([places(2, more)])
    const reserve = () => limiter.reserve({ attributes: { user: 'u1' } }, { ttl: '1s' })
    const settled = await (await reserve()).settle({})
    expect([settled.reason, settled.costs]).toEqual(['settled', {}])
    const late = await reserve()
    await advance(1500)
    const expired = await late.cancel()
    expect([expired.reason, expired.costs]).toEqual(['expired', {}])
  })

  test('are not taken if nobody says when its call ends', async () => {
    const { limiter } = reserving([places(1), tokens(1000)])
    const reserve = () => limiter.reserve(callOf(100), { inFlight: false })
    expect((await reserve()).holdsPlaces()).toBe(false)
    expect(await (await reserve()).settle(10)).toMatchObject({ charged: 10, givenBack: 90 })
    expect(await leftOf(limiter, 'in-flight')).toBe(1)
  })

  test('are not costs, and stay as they are when it is extended', async () => {
    const heavy = places(2, { cost: { attribute: 'tokens' } })
    const one = reserving([heavy]).limiter
    const weighed = await one.reserve({ attributes: { user: 'u1', tokens: 1 } })
    await expect(weighed.extend({ tokens: 1 })).rejects.toMatchObject({ code: 'CALL_COST_INVALID' })
    const { limiter } = reserving([places(2), tokens(1000)])
    const reservation = await limiter.reserve(callOf(100))
    const extended = await reservation.extend({ tokens: 50 })
    expect(limiter.inFlight.get('in-flight')).toMatchObject({ inFlight: 1 })
    expect(await extended.settle(120)).toMatchObject({
      charged: 120,
      givenBack: 30,
      costs: { tokens: { charged: 120 } },
    })
    expect(await leftOf(limiter, 'in-flight')).toBe(2)
  })
})

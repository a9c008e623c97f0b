/** Reservations and extensions that are sent again, on a store that answers or fails. */
import { describe, expect, test } from 'vitest'
import type { Limiter } from '../index.js'
import { limiterOf } from '../limiter.test-helper.js'
import { scripted } from '../scripted-store.test-helper.js'

const rule = (id: string, more: object = {}) => ({
  id,
  by: ['user'],
  limits: [{ algorithm: 'fixed-window', max: 1000, window: '1h', name: 'all' }],
  cost: { attribute: 'tokens' },
  ...more,
})
const callOf = (tokens: number, more: object = {}) => ({
  attributes: { user: 'u1', tokens, ...more },
})

async function leftOf(limiter: Limiter, id = 'tokens') {
  const policies = await limiter.limits({ attributes: { user: 'u1' } })
  return policies.find((policy) => policy.rule === id)?.remaining
}

describe('an extension that is sent again under its key', () => {
  const options = { idempotencyKey: 'part 2' }

  test('is admitted without another charge, also when nothing is left', async () => {
    const { limiter } = limiterOf([rule('tokens')])
    const handle = (await limiter.reserve(callOf(100))).reservation ?? ''
    await limiter.extend(handle, { tokens: 200 }, options)
    await limiter.check(callOf(700))
    const again = await limiter.extend(handle, { tokens: 200 }, options)
    expect(again.allowed).toBe(true)
    expect(again.reserved()).toEqual({ tokens: 300 })
    expect(await leftOf(limiter)).toBe(0)
    expect(await again.settle(250)).toMatchObject({ charged: 250, givenBack: 50 })
    expect(await leftOf(limiter)).toBe(50)
  })

  test('lasts as long as the first one did', async () => {
    const { limiter, clock } = limiterOf([rule('tokens')])
    const reservation = await limiter.reserve(callOf(100), { ttl: '10s' })
    await reservation.extend({ tokens: 200 }, options)
    clock.advance(9000)
    const again = await reservation.extend({ tokens: 200 }, options)
    clock.advance(1001)
    expect(await again.settle(1)).toMatchObject({ reason: 'expired', charged: 300 })
  })

  test('is an error if it asks for something else', async () => {
    const { limiter } = limiterOf([rule('tokens')])
    const reservation = await limiter.reserve(callOf(100))
    await reservation.extend({ tokens: 200 }, options)
    await expect(reservation.extend({ tokens: 201 }, options)).rejects.toMatchObject({
      code: 'RESERVATION_DIFFERS',
      message: 'idempotencyKey: it was used before, with other costs, limits or ttl',
    })
    expect(await leftOf(limiter)).toBe(700)
  })

  test('is refused if the reservation was settled meanwhile', async () => {
    const { limiter } = limiterOf([rule('tokens')])
    const reservation = await limiter.reserve(callOf(100))
    const extended = await reservation.extend({ tokens: 200 }, options)
    await extended.settle(300)
    await expect(reservation.extend({ tokens: 200 }, options)).rejects.toMatchObject({
      code: 'RESERVATION_ENDED',
    })
  })

  test('can be tried again after a refusal', async () => {
    const { limiter } = limiterOf([rule('tokens')])
    const reservation = await limiter.reserve(callOf(900))
    expect((await reservation.extend({ tokens: 200 }, options)).allowed).toBe(false)
    expect((await reservation.extend({ tokens: 100 }, options)).allowed).toBe(true)
  })

  test.each(['open', 'closed'])(
    'gets what the store took although its answer was lost, of a rule that fails %s',
    async (posture) => {
      const { store, limiter } = await scripted([rule('tokens', { posture })])
      const reservation = await limiter.reserve(callOf(100))
      store.all('ran')
      const unanswered = await reservation.extend({ tokens: 200 }, options)
      expect(unanswered.source).toBe('posture')
      store.recover()
      const again = await reservation.extend({ tokens: 200 }, options)
      expect(again.reserved()).toEqual({ tokens: 300 })
      expect(await again.settle(250)).toMatchObject({ charged: 250, givenBack: 50 })
      expect(await leftOf(limiter)).toBe(750)
    },
  )

  test('is another one without a key, and from another handle', async () => {
    const { limiter } = limiterOf([rule('tokens')])
    const reservation = await limiter.reserve(callOf(100))
    await reservation.extend({ tokens: 50 })
    await reservation.extend({ tokens: 50 })
    expect(await leftOf(limiter)).toBe(800)
    const other = await limiter.reserve(callOf(100))
    await reservation.extend({ tokens: 50 }, options)
    await other.extend({ tokens: 50 }, options)
    expect(await leftOf(limiter)).toBe(600)
  })

  test('needs a key of 1 to 256 characters', async () => {
    const { limiter } = limiterOf([rule('tokens')])
    const reservation = await limiter.reserve(callOf(100))
    await expect(reservation.extend({ tokens: 1 }, { idempotencyKey: '' })).rejects.toMatchObject({
      code: 'CALL_INVALID',
      message: 'idempotencyKey: found empty text; accepted: text of 1 to 256 characters',
    })
  })
})

describe('an extension', () => {
  test('keeps handles short, however many there were', async () => {
    const { limiter, clock } = limiterOf([rule('tokens', { limits: [hourly(1_000_000)] })])
    let reservation = await limiter.reserve(callOf(10))
    for (let i = 0; i < 200; i++) {
      clock.advance(1000)
      reservation = await reservation.extend({ tokens: 10 })
    }
    const text = reservation.reservation ?? ''
    expect(text.length).toBeLessThan(1000)
    expect(await limiter.settle(text, 15)).toMatchObject({ charged: 15, givenBack: 1995 })
    expect(await leftOf(limiter)).toBe(999_985)
  })

  test('stays under the ceiling of the priority that its reserve had', async () => {
    const { limiter } = limiterOf({
      priorities: ['critical', 'low'],
      classify: [{ as: 'low' }],
      rules: [rule('tokens', { headroom: { critical: '50%' } })],
    })
    const reservation = await limiter.reserve(callOf(400))
    expect(await reservation.extend({ tokens: 200 })).toMatchObject({
      allowed: false,
      rule: 'tokens',
    })
    const extended = await reservation.extend({ tokens: 100 })
    expect(extended.allowed).toBe(true)
    expect((await extended.extend({ tokens: 1 })).allowed).toBe(false)
  })

  test('accepts every cost that a reserve accepts', async () => {
    const { limiter } = limiterOf([rule('tokens')])
    const reservation = await limiter.reserve(callOf(1))
    const extended = await reservation.extend({ tokens: 9_007_199_254_740_991 })
    expect(extended).toMatchObject({ allowed: false, retryAfterMs: null })
    await expect(reservation.extend({ tokens: 'many' })).rejects.toMatchObject({
      code: 'CALL_COST_INVALID',
      message: 'attribute tokens must be an integer between 0 and 2^53-1, got many',
    })
  })
})

describe('a reserve with a key whose mark is held by a call that is being decided', () => {
  const options = { idempotencyKey: 'k' }

  /** A store that refuses the first take of a call, and others, as on a Cluster. */
  async function holding(refused: readonly number[]) {
    const { store, limiter } = await scripted([rule('tokens')])
    await limiter.reserve(callOf(100), options)
    const take = store.take.bind(store)
    store.take = async (groups, takeOptions) => {
      const [first = [], ...others] = await take(groups, takeOptions)
      const marked = first.map((answer, i) => {
        if (typeof answer === 'string' || !refused.includes(i)) return answer
        return { ...answer, granted: 0, retryAfterMs: 20, held: i === 0 }
      })
      return [marked, ...others]
    }
    return limiter
  }

  test('is refused, because nothing was taken for it', async () => {
    const limiter = await holding([0])
    const decision = await limiter.reserve(callOf(100), options)
    expect(decision).toMatchObject({ allowed: false, rule: 'tokens', retryAfterMs: 20 })
    expect(decision.reservation).toBeUndefined()
  })

  test('is refused by the limit that refuses', async () => {
    const limiter = await holding([0, 1])
    const decision = await limiter.reserve(callOf(100), options)
    expect(decision).toMatchObject({ allowed: false, rule: 'tokens', retryAfterMs: 20 })
  })
})

describe('an idempotency key', () => {
  test('that is used for other limits of the same caller is an error', async () => {
    const on = (path: string) => ({ match: { path } })
    const { limiter } = limiterOf([rule('tokens', on('/a')), rule('other', on('/b'))])
    const options = { idempotencyKey: 'k' }
    await limiter.reserve(callOf(100, { path: '/a' }), options)
    await expect(limiter.reserve(callOf(100, { path: '/b' }), options)).rejects.toMatchObject({
      code: 'RESERVATION_DIFFERS',
      message: 'idempotencyKey: it was used before, with other costs, limits or ttl',
    })
  })

  test('that is used with another ttl is an error', async () => {
    const { limiter } = limiterOf([rule('tokens')])
    await limiter.reserve(callOf(100), { idempotencyKey: 'k', ttl: '5s' })
    await expect(
      limiter.reserve(callOf(100), { idempotencyKey: 'k', ttl: '1h' }),
    ).rejects.toMatchObject({ code: 'RESERVATION_DIFFERS' })
  })

  test('is the same reservation as long as that counts as settled, and then another one', async () => {
    const { limiter, clock } = limiterOf([rule('tokens')])
    const options = { idempotencyKey: 'job 7', ttl: '10s' }
    const first = await limiter.reserve(callOf(100), options)
    clock.advance(9000)
    await first.settle(10)
    clock.advance(30_000)
    const again = await limiter.reserve(callOf(100), options)
    expect(await again.settle(20)).toMatchObject({ settled: false })
    expect(await leftOf(limiter)).toBe(990)
    clock.advance(90_000)
    const second = await limiter.reserve(callOf(100), options)
    expect(await second.settle(20)).toMatchObject({ settled: true, charged: 20 })
    expect(await leftOf(limiter)).toBe(970)
  })
})

test('A settle whose cost no number can hold is an error, and can be sent again.', async () => {
  const { limiter } = limiterOf([{ id: 'calls', by: ['user'], limits: [hourly(100)], cost: 3 }])
  const reservation = await limiter.reserve({ attributes: { user: 'u1' } })
  await expect(reservation.settle(9_007_199_254_740_991)).rejects.toMatchObject({
    code: 'CALL_COST_INVALID',
  })
  expect(await reservation.settle(2)).toMatchObject({ settled: true, charged: 6 })
})

function hourly(max: number) {
  return { algorithm: 'fixed-window', max, window: '1h' }
}

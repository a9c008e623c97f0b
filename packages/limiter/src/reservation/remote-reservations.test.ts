/** Reservations on a remote store that is silent, late, or answers in part. */
import { describe, expect, test } from 'vitest'
import type { Limiter, Reservation } from '../index.js'
import { limiterOver, scripted, settled } from '../scripted-store.test-helper.js'

const rule = (id: string, max: number, more: object = {}) => ({
  id,
  by: ['user'],
  limits: [{ algorithm: 'fixed-window', max, window: '1h', name: 'all' }],
  cost: { attribute: 'tokens' },
  ...more,
})
const CLOSED = { posture: 'closed' }
const callOf = (tokens: number) => ({ attributes: { user: 'u1', tokens } })

const places = (max: number, more: object = {}) => ({
  id: 'in-flight',
  by: ['user'],
  limits: [{ algorithm: 'concurrency', max }],
  ...more,
})

async function leftOf(limiter: Limiter, id = 'tokens') {
  const policies = await limiter.limits({ attributes: { user: 'u1' } })
  return policies.find((policy) => policy.rule === id)?.remaining
}

describe('a reserve that the store does not answer', () => {
  test('is decided by posture, and settles nothing', async () => {
    const { store, limiter } = await scripted([rule('tokens', 1000)])
    store.all('lost')
    const reservation = await limiter.reserve(callOf(800))
    expect(reservation).toMatchObject({ allowed: true, source: 'posture' })
    store.recover()
    expect(await reservation.settle(100)).toMatchObject({ settled: false, reason: 'posture' })
    expect(await reservation.cancel()).toMatchObject({ settled: false, reason: 'posture' })
    await expect(reservation.extend({ tokens: 1 })).rejects.toMatchObject({
      code: 'RESERVATION_ENDED',
    })
  })

  test('is given back if it ran after all and posture had refused it', async () => {
    const { store, limiter } = await scripted([rule('tokens', 1000, CLOSED)])
    store.all('ran')
    expect((await limiter.reserve(callOf(800))).allowed).toBe(false)
    store.recover()
    store.comeLate()
    await settled()
    expect(await leftOf(limiter)).toBe(1000)
  })
})

test('a limiter closes once it has given back what a refused reserve took', async () => {
  const { store, limiter } = await scripted([rule('tokens', 1000), rule('day', 5000, CLOSED)])
  const give = store.give.bind(store)
  store.give = async (given) => {
    await settled()
    await give(given)
  }
  // The mark of the key comes first, then the tokens.
  store.script.fate = (_, at) => (at < 2 ? 'answer' : 'lost')
  const reservation = await limiter.reserve(callOf(800), { idempotencyKey: 'k' })
  expect(reservation.allowed).toBe(false)
  await limiter.close()
  expect(store.gives.map(({ amount }) => amount)).toEqual([expect.anything(), 800])
})

describe('a settle that the store does not answer', () => {
  test('rejects, and ends the reservation when it is sent again', async () => {
    const { store, limiter } = await scripted([rule('tokens', 1000)])
    const reservation = await limiter.reserve(callOf(800))
    store.all('lost')
    await expect(reservation.settle(100)).rejects.toMatchObject({ code: 'STORE_FAILED' })
    store.recover()
    expect(await reservation.settle(100)).toMatchObject({ settled: true, charged: 100 })
    expect(await leftOf(limiter)).toBe(900)
  })

  test('says that it was settled if the first attempt ran unanswered', async () => {
    const { store, limiter } = await scripted([rule('tokens', 1000)])
    const reservation = await limiter.reserve(callOf(800))
    store.all('ran')
    await expect(reservation.settle(100)).rejects.toMatchObject({ code: 'STORE_FAILED' })
    store.recover()
    expect(await reservation.settle(100)).toMatchObject({ reason: 'already-settled' })
    expect(await leftOf(limiter)).toBe(900)
  })

  test('sends a difference that certainly did not run once more', async () => {
    const { store, limiter } = await scripted([rule('tokens', 1000), rule('day', 5000)])
    const less = await limiter.reserve(callOf(800))
    store.script.fate = (group) => (group === 1 ? 'not-run' : 'answer')
    expect(await less.settle(100)).toMatchObject({ settled: true, charged: 100 })
    store.recover()
    expect([await leftOf(limiter), await leftOf(limiter, 'day')]).toEqual([900, 4900])
    const more = await limiter.reserve(callOf(100))
    store.script.fate = (group) => (group === 2 ? 'not-run' : 'answer')
    expect(await more.settle(150)).toMatchObject({ settled: true, charged: 150 })
    store.recover()
    expect([await leftOf(limiter), await leftOf(limiter, 'day')]).toEqual([750, 4750])
  })

  test('leaves a difference of unknown fate as it is, rather than charge it twice', async () => {
    const { store, limiter } = await scripted([rule('tokens', 1000)])
    const reservation = await limiter.reserve(callOf(800))
    store.script.fate = (group) => (group === 1 ? 'ran' : 'answer')
    expect(await reservation.settle(100)).toMatchObject({ settled: true })
    store.recover()
    expect(await leftOf(limiter)).toBe(900)
  })
})

describe('a reservation on a remote store', () => {
  test('is settled by another node', async () => {
    const { store, limiter } = await scripted([rule('tokens', 1000)])
    const other = limiterOver(store, [rule('tokens', 1000)])
    await other.ready()
    const { reservation = '' } = await limiter.reserve(callOf(800))
    expect(await other.settle(reservation, 100)).toMatchObject({ settled: true, charged: 100 })
    expect(await limiter.settle(reservation, 100)).toMatchObject({ reason: 'already-settled' })
    expect(await leftOf(limiter)).toBe(900)
  })

  test('that is sent again under its key passes although the limit is known to refuse', async () => {
    const { limiter } = await scripted([rule('tokens', 1000)], { denyCacheMs: 1000 })
    const options = { idempotencyKey: 'k' }
    const first = await limiter.reserve(callOf(800), options)
    expect((await limiter.check(callOf(800))).allowed).toBe(false)
    expect((await limiter.check(callOf(800))).source).toBe('deny-cache')
    const again = await limiter.reserve(callOf(800), options)
    expect(again).toMatchObject({ allowed: true, reservation: first.reservation })
    expect(await leftOf(limiter)).toBe(200)
  })

  test('lets calls pass at once that were refused before it gave back', async () => {
    const { limiter } = await scripted([rule('tokens', 1000)], { denyCacheMs: 1000 })
    const reservation = await limiter.reserve(callOf(1000))
    expect((await limiter.check(callOf(500))).allowed).toBe(false)
    await reservation.settle(100)
    expect((await limiter.check(callOf(500))).allowed).toBe(true)
  })

  test('is not admitted from a stale state, which takes nothing', async () => {
    const { store, limiter } = await scripted([rule('tokens', 1000, { hedge: true })])
    await limiter.check(callOf(1))
    const reservation = await limiter.reserve(callOf(500))
    expect(reservation.source).toBe('store')
    await reservation.settle(400)
    expect(await leftOf(limiter)).toBe(599)
    expect(store.requests.length).toBe(3)
  })

  test('keeps the estimate of a limit that nodes count themselves', async () => {
    const rules = [rule('tokens', 1000), rule('split', 1000, { coordination: 'split' })]
    const { limiter } = await scripted(rules)
    const reservation = await limiter.reserve(callOf(800))
    expect(reservation.allowed).toBe(true)
    await reservation.settle(100)
    expect(await leftOf(limiter)).toBe(900)
    expect(await leftOf(limiter, 'split')).toBe(200)
  })
})

describe('places of a reservation', () => {
  const call = { attributes: { user: 'u1' } }

  test.each(['open', 'local', 'closed'])(
    'that the store grants too late are given back by a rule that fails %s',
    async (posture) => {
      const { store, limiter } = await scripted([places(3, { posture })])
      store.all('ran')
      const reservation = await limiter.reserve(call)
      expect(reservation.source).toBe('posture')
      store.recover()
      store.comeLate()
      await settled()
      expect(await leftOf(limiter, 'in-flight')).toBe(3)
      await reservation.cancel()
      expect(await leftOf(limiter, 'in-flight')).toBe(3)
    },
  )

  test('that are granted too late stay for the call that is sent again under its key', async () => {
    const { store, limiter } = await scripted([places(3)])
    const options = { idempotencyKey: 'k' }
    store.all('ran')
    await limiter.reserve(call, options)
    store.recover()
    store.comeLate()
    await settled()
    const again = await limiter.reserve(call, options)
    expect(await leftOf(limiter, 'in-flight')).toBe(2)
    expect(await again.settle(1)).toMatchObject({ settled: true })
    expect(await leftOf(limiter, 'in-flight')).toBe(3)
  })

  test('of which the store granted some are held until it ends', async () => {
    const { store, limiter } = await scripted([places(3), places(5, { id: 'all', by: [] })])
    store.script.fate = (_, at) => (at === 0 ? 'answer' : 'lost')
    const reservation = await limiter.reserve(call)
    expect(reservation).toMatchObject({ allowed: true, source: 'posture' })
    store.recover()
    expect(await leftOf(limiter, 'in-flight')).toBe(2)
    await reservation.settle(1)
    await settled()
    expect(await leftOf(limiter, 'in-flight')).toBe(3)
  })

  test('that only this process counts are free when an extended one ends', async () => {
    const { limiter } = await scripted([places(2, { coordination: 'node' }), rule('tokens', 1000)])
    const reservation = await limiter.reserve(callOf(10))
    const extended = await reservation.extend({ tokens: 10 })
    expect(extended.holdsPlaces()).toBe(true)
    expect(limiter.inFlight.get('in-flight')).toMatchObject({ inFlight: 1 })
    await extended.settle(15)
    expect(limiter.inFlight.get('in-flight')).toMatchObject({ inFlight: 0 })
    expect(await leftOf(limiter, 'in-flight')).toBe(2)
  })

  test('that only this process counts are free although the store does not answer the settle', async () => {
    const rules = [places(2, { coordination: 'node' }), rule('tokens', 1000)]
    const { store, limiter } = await scripted(rules)
    const reservation = await limiter.reserve(callOf(10))
    store.all('lost')
    await expect(reservation.settle(5)).rejects.toMatchObject({ code: 'STORE_FAILED' })
    expect(limiter.inFlight.get('in-flight')).toMatchObject({ inFlight: 0 })
    store.recover()
    expect(await reservation.settle(5)).toMatchObject({ settled: true })
    expect(limiter.inFlight.get('in-flight')).toMatchObject({ inFlight: 0 })
    expect(await leftOf(limiter, 'in-flight')).toBe(2)
  })

  test.each([
    ['repeated', (limiter: Limiter) => limiter.reserve(callOf(1), { idempotencyKey: 'a' })],
    ['extended', (_: Limiter, held: Reservation) => held.extend({ tokens: 2 })],
  ] as const)('that its node counts are free when one that was %s ends', async (_, more) => {
    const { limiter } = await scripted([places(3, { coordination: 'node' }), rule('tokens', 100)])
    const first = await limiter.reserve(callOf(1), { idempotencyKey: 'a' })
    const last = await more(limiter, first)
    expect(limiter.inFlight.get('in-flight')?.inFlight).toBe(1)
    expect(await last.settle(1)).toMatchObject({ settled: true })
    expect(limiter.inFlight.get('in-flight')?.inFlight).toBe(0)
    expect(await leftOf(limiter, 'in-flight')).toBe(3)
  })

  test('that a refused one was granted are given back, and not those of calls beside it', async () => {
    const closed = places(5, { id: 'all', by: [], posture: 'closed' })
    const { store, limiter } = await scripted([places(3), closed])
    const beside = await limiter.check(call, { inFlight: true })
    store.script.fate = (_, at) => (at === 0 ? 'answer' : 'lost')
    expect((await limiter.reserve(call)).allowed).toBe(false)
    store.recover()
    await settled()
    expect(await leftOf(limiter, 'in-flight')).toBe(2)
    beside.release?.()
    await settled()
    expect(await leftOf(limiter, 'in-flight')).toBe(3)
  })
})

import { expect, test } from 'vitest'
import { createLimiter } from '../index.js'
import { FakeScheduler } from '../redis/connection/channel.test-helper.js'
import { manualClock } from '../testing/index.js'
import { ReservationCounts } from './reservation-stats.js'

const RULES = [
  {
    id: 'tokens',
    by: ['user'],
    limits: [{ algorithm: 'fixed-window', max: 1000, window: '1h' }],
    cost: { attribute: 'tokens' },
    onExpiry: 'refund',
  },
]
const callOf = (tokens: number) => ({ attributes: { user: 'u1', tokens } })

function setUp() {
  const clock = manualClock()
  const scheduler = new FakeScheduler()
  const limiter = createLimiter({ rules: RULES, clock, scheduler })
  const advance = (ms: number) => {
    clock.advance(ms)
    return scheduler.advance(ms)
  }
  return { limiter, advance }
}

test('a reservation that expired is counted as refunded, and a settle that comes later as expired', async () => {
  const { limiter, advance } = setUp()
  const reservation = await limiter.reserve(callOf(800), { ttl: '10s' })
  await advance(11_000)
  await reservation.settle(100)
  expect(limiter.reservations.fates).toMatchObject({ made: 1, refunded: 1, expired: 1, settled: 0 })
  expect([...limiter.reservations.units]).toEqual([
    ['tokens', { charged: 0, givenBack: 800, owed: 0 }],
  ])
})

test('a reservation that was settled in time is not counted again when it would have expired', async () => {
  const { limiter, advance } = setUp()
  const reservation = await limiter.reserve(callOf(800), { ttl: '10s' })
  await limiter.settle(reservation.reservation ?? '', 900)
  await reservation.settle(900)
  await advance(11_000)
  expect(limiter.reservations.fates).toMatchObject({
    made: 1,
    settled: 1,
    'already-settled': 1,
    refunded: 0,
  })
  expect([...limiter.reservations.units]).toEqual([
    ['tokens', { charged: 900, givenBack: 0, owed: 0 }],
  ])
})

test('a refused reserve, and the settle that follows it, count nothing', async () => {
  const { limiter } = setUp()
  const refused = await limiter.reserve(callOf(2000))
  await refused.settle(5)
  expect(Object.values(limiter.reservations.fates).every((count) => count === 0)).toBe(true)
})

test('a repeated extension is counted as repeated, and a refused one as such', async () => {
  const { limiter } = setUp()
  const first = await limiter.reserve(callOf(100))
  const extend = () => first.extend({ tokens: 50 }, { idempotencyKey: 'k' })
  await extend()
  await extend()
  await first.extend({ tokens: 5000 })
  expect(limiter.reservations.fates).toMatchObject({
    made: 1,
    extended: 1,
    repeated: 1,
    'extension-refused': 1,
  })
})

test('the units of very many cost attributes share one name', () => {
  const counts = new ReservationCounts()
  const cost = { charged: 2, givenBack: 1, owed: 0 }
  for (let i = 0; i < 100; i++) {
    const costs = { [`cost-${i}`]: cost }
    counts.countSettlement({ settled: true, reason: 'settled', costs, ...cost }, false)
  }
  expect(counts.units.size).toBe(65)
  expect(counts.units.get('other')).toEqual({ charged: 72, givenBack: 36, owed: 0 })
})

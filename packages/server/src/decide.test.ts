import { type Decision, UNMATCHED } from '@sluice/core'
import { createLimiter, type Limiter } from '@sluice/limiter'
import { expect, test } from 'vitest'
import { createDecider, TIMED_EVERY } from './decide.js'

const CALL = { attributes: { user: 'u1' } }
const RULES = 'rules: [{ id: r, by: [user], limits: [1/hour] }]'

function setUp(limiter: Pick<Limiter, 'decide'>, onDecision = (): void => undefined) {
  let now = 0
  const counts = { counted: 0, refused: 0, would: 0, degraded: 0, times: [] as [number, number][] }
  const decider = createDecider({
    limiter: limiter as Limiter,
    metrics: { count: () => void counts.counted++ },
    observability: { onDecision },
    refusals: {
      logRefusal: () => void counts.refused++,
      logShadowRefusal: () => void counts.would++,
    },
    degraded: { onDecision: () => void counts.degraded++ },
    times: { observe: (seconds, times = 1) => void counts.times.push([seconds, times]) },
    nowMs: () => now,
  })
  return { decider, seen: counts, advance: (ms: number) => void (now += ms) }
}

test('a decision in memory is synchronous, counted, and logged if it is a refusal', () => {
  const { decider, seen: counts } = setUp(createLimiter({ rules: RULES }))
  const first = decider.check(CALL, 'api')
  const second = decider.check(CALL, 'api')
  expect([first, second]).toMatchObject([{ allowed: true }, { allowed: false }])
  expect(counts).toMatchObject({ counted: 2, refused: 1, degraded: 0 })
})

test('an admitted call that a candidate would have refused is logged as such, a refused call is not', () => {
  const rules = `
    rules: [{ id: r, by: [user], limits: [2/hour], candidate: { limits: [1/hour] } }]
  `
  const { decider, seen: counts } = setUp(createLimiter({ rules }))
  for (let i = 0; i < 5; i++) void decider.check(CALL, 'api')
  expect(counts).toMatchObject({ counted: 5, refused: 3, would: 1 })
})

test('one in 64 decisions in memory is timed, and counts for all of them', () => {
  const { decider, seen: counts } = setUp(createLimiter({ rules: RULES }))
  for (let i = 0; i < 3 * TIMED_EVERY; i++) void decider.check(CALL, 'api')
  expect(counts.times).toEqual([
    [0, TIMED_EVERY],
    [0, TIMED_EVERY],
    [0, TIMED_EVERY],
  ])
})

test('each decision of a remote store is timed', async () => {
  let answer: (decision: Decision) => void = () => {}
  const decide = () => new Promise<Decision>((resolve) => (answer = resolve))
  const { decider, seen: counts, advance } = setUp({ decide })
  for (let i = 1; i <= TIMED_EVERY + 1; i++) {
    const decided = decider.check(CALL, 'api')
    advance(5)
    answer(UNMATCHED)
    await decided
  }
  expect(counts.times).toEqual(Array.from({ length: TIMED_EVERY + 1 }, () => [0.005, 1]))
  expect(counts.counted).toBe(TIMED_EVERY + 1)
})

test('a decision by posture is reported', async () => {
  const decision: Decision = { ...UNMATCHED, postures: { r: 'local' } }
  const { decider, seen: counts } = setUp({ decide: () => Promise.resolve(decision) })
  await decider.check(CALL, 'gateway')
  expect(counts).toMatchObject({ counted: 1, degraded: 1 })
})

test('a failure is passed to the caller, and not counted', async () => {
  const { decider, seen: counts } = setUp({ decide: () => Promise.reject(new Error('gone')) })
  await expect(decider.check(CALL, 'api')).rejects.toThrow('gone')
  expect(counts).toMatchObject({ counted: 0, times: [] })
})

test('the places of a decision whose report fails are given back', () => {
  const rules = 'rules: [{ id: r, by: [user], limits: [{ algorithm: concurrency, max: 1 }] }]'
  const limiter = createLimiter({ rules })
  const { decider } = setUp(limiter, () => {
    throw new Error('the log is full')
  })
  const check = () => decider.check(CALL, 'gateway', { inFlight: true })
  expect(check).toThrow('the log is full')
  expect(limiter.decide(CALL, { inFlight: true })).toMatchObject({ allowed: true })
})

test('a reservation whose report fails is given back', async () => {
  const rules = 'rules: [{ id: r, by: [user], limits: [{ algorithm: concurrency, max: 1 }] }]'
  const limiter = createLimiter({ rules })
  const { decider } = setUp(limiter, () => {
    throw new Error('the log is full')
  })
  await expect(decider.reserve(CALL, 'gateway')).rejects.toThrow('the log is full')
  expect(await limiter.reserve(CALL)).toMatchObject({ allowed: true })
})

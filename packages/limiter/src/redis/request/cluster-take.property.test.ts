/**
 * Calls in several slots of a Cluster under random interleavings of their scripts, replies and
 * give-backs. `SLUICE_RUNS` multiplies the number of interleavings.
 */
import {
  defineBlock,
  defineLimit,
  isConcurrency,
  type Limit,
  type Outcome,
  type Take,
} from '@sluice/core'
import fc from 'fast-check'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { memoryStore } from '../../memory/memory-store.js'
import type { Answer, Groups } from '../../store.js'
import { manualClock } from '../../testing/index.js'
import { type SlotCall, Slots } from './slots.test-helper.js'
import { propertyRuns } from '../../../../../tools/property-runs.js'

const YEAR_MS = 366 * 86_400_000
/** Longer than any interleaving takes. */
const DEADLINE_MS = 1_000_000

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

const windowOf = (max: number) => defineLimit({ algorithm: 'fixed-window', max, windowMs: YEAR_MS })

const placesOf = (max: number) => defineLimit({ algorithm: 'concurrency', max, windowMs: 0 })

/** The calls of two nodes take turns. */
let holder = 0

const takeOf = (n: number, limit: Limit, amount = 1): Take => ({
  key: { hi: n, lo: n, partition: n },
  limit,
  amount,
  ...(limit.algorithm === 'concurrency' && { holder: (holder = 1 - holder) }),
})

const refusals = (row: readonly Answer[] = []) =>
  row.flatMap((answer, i) => (typeof answer === 'object' && answer.retryAfterMs !== 0 ? [i] : []))
const isSilent = ({ answers }: SlotCall) =>
  answers?.[0]?.some((answer) => typeof answer === 'string') === true
const isAdmitted = (slotCall: SlotCall) =>
  !isSilent(slotCall) && refusals(slotCall.answers?.[0]).length === 0

/** Runs the pending events in random order until every call is answered. */
async function settle(
  slots: Slots,
  calls: readonly SlotCall[],
  dice: readonly number[],
  expires = false,
) {
  for (let n = 0; calls.some(({ answers }) => answers === undefined); n++) {
    const roll = dice[n % dice.length] ?? 0
    if (expires && roll % 5 === 0) calls[roll % calls.length]?.call.expire()
    const waiting = slots.underWay.length
    if (waiting === 0 || roll % 7 === 0) {
      slots.nowMs += 1
      await vi.advanceTimersByTimeAsync(1)
    }
    // Mostly in order, as on a connection.
    if (waiting > 0) await slots.run(roll % 3 === 0 ? roll % waiting : 0)
  }
  for (let turn = 0; turn < 3; turn++) {
    await slots.runAll()
    await vi.advanceTimersByTimeAsync(20)
  }
}

const dices = fc.array(fc.nat({ max: 1_000_000 }), { minLength: 1, maxLength: 300, size: 'max' })

/** The block beside the limit in the same slot. */
const blockOf = (n: number): Take => ({
  key: { hi: n, lo: -1, partition: n },
  limit: defineBlock('block', {
    firstMs: YEAR_MS,
    factor: 1,
    maxMs: YEAR_MS,
    forgetMs: YEAR_MS,
  }),
  amount: 1,
})

const waitOf = (slots: Slots, take: Take) => slots.store.sync.peek([[take]])[0]?.[0]?.retryAfterMs

test.each([
  ['equal calls at once are admitted exactly up to the smallest limit', windowOf, false],
  ['calls in flight at once are as many as the smallest limit', placesOf, false],
  ['blocks begin only after as many calls as the smallest limit allows', windowOf, true],
])(
  '%s',
  async (_, limitOf, hasBlocks) => {
    const maxes = fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 2, maxLength: 4 })
    const given = fc.tuple(maxes, fc.integer({ min: 1, max: 16 }), dices)
    await fc.assert(
      fc.asyncProperty(given, async ([limits, count, dice]) => {
        const slots = new Slots()
        const takes = limits.map((max, n) => takeOf(n, limitOf(max)))
        const groupOf = () =>
          takes.flatMap((_take, n) => {
            const take = takeOf(n, limitOf(limits[n] ?? 1))
            return hasBlocks ? [take, blockOf(n)] : [take]
          })
        const calls = Array.from({ length: count }, () => slots.start([groupOf()], DEADLINE_MS))
        await settle(slots, calls, dice)
        const admitted = calls.filter(isAdmitted).length
        expect(admitted).toBe(Math.min(count, ...limits))
        expect(takes.map((take) => slots.remaining(take))).toEqual(
          limits.map((max) => max - admitted),
        )
        expect(slots.heldRefusals).toBe(0)
        if (!hasBlocks) return
        const waits = limits.map((_max, n) => waitOf(slots, blockOf(n)))
        expect(waits.filter((wait, n) => wait !== 0 && (limits[n] ?? 0) > admitted)).toEqual([])
        const isBlocked = waits.some((wait) => wait !== 0)
        expect(isBlocked).toBe(count > admitted)
      }),
      { numRuns: propertyRuns(300) },
    )
  },
  600_000,
)

test.each([
  [
    'no call is admitted in excess, and a refusal that may be remembered stays true',
    windowOf,
    false,
  ],
  // Units given back after a deadline are seen late, as on a single Redis.
  ['no call is admitted in excess or charged in vain, whenever its deadline comes', windowOf, true],
  ['no call has a place in excess or in vain, whenever its deadline comes', placesOf, true],
])(
  'concurrent calls: %s',
  async (_, limitOf, expires) => {
    const meets = fc.uniqueArray(fc.nat({ max: 3 }), { minLength: 1, maxLength: 4 })
    const call = fc.record({ meets, amount: fc.integer({ min: 1, max: 3 }) })
    const maxes = fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 4, maxLength: 4 })
    const given = fc.tuple(maxes, fc.array(call, { minLength: 1, maxLength: 14 }), dices)
    await fc.assert(
      fc.asyncProperty(given, async ([maxes4, wanted, dice]) => {
        const slots = new Slots()
        slots.refusesSilence = true
        const limits = maxes4.map(limitOf)
        const groups = wanted.map(({ meets: met, amount }) =>
          met.map((n) => takeOf(n, limits[n] ?? limitOf(1), amount)),
        )
        const calls = groups.map((takes) => slots.start([takes], DEADLINE_MS))
        await settle(slots, calls, dice, expires)
        const used = maxes4.map(() => 0)
        calls.forEach((slotCall, c) => {
          if (!isAdmitted(slotCall)) return
          for (const { key, amount } of groups[c] ?? []) used[key.hi] = (used[key.hi] ?? 0) + amount
        })
        expect(limits.map((limit, n) => slots.remaining(takeOf(n, limit)))).toEqual(
          maxes4.map((max, n) => max - (used[n] ?? 0)),
        )
        if (expires) return
        calls.forEach(({ answers }, c) => {
          for (const i of refusals(answers?.[0])) {
            const answer = answers?.[0]?.[i]
            const take = groups[c]?.[i]
            if (typeof answer !== 'object' || answer.held === true || take === undefined) continue
            expect(slots.store.sync.peek([[take]])[0]?.[0]?.retryAfterMs).not.toBe(0)
          }
        })
      }),
      { numRuns: propertyRuns(300) },
    )
  },
  600_000,
)

/**
 * The visible outcome; an unused counter and one that got all units back look the same. Places that
 * were taken in vain renew the lease of their holder.
 */
const figures = (groups: Groups<Outcome>, takes: Groups<Take>) =>
  groups.map((row, g) =>
    row.map(({ remaining, resetAfterMs, retryAfterMs, delayMs }, i) => [
      remaining,
      takes[g]?.[i]?.limit.algorithm === 'concurrency' || resetAfterMs,
      retryAfterMs,
      delayMs,
    ]),
  )

const ALGORITHMS = [
  'token-bucket',
  'gcra',
  'leaky-bucket',
  'fixed-window',
  'sliding-window-counter',
  'sliding-window-log',
  'concurrency',
] as const

const KINDS = ['plain', 'plain', 'gate', 'overdraw', 'back'] as const

/** A leaky bucket has no unit to give back but the slot that a call took. */
function ofKind(take: Take, kind: (typeof KINDS)[number] = 'plain'): Take {
  if (kind === 'gate') return { ...take, amount: 0, gate: true }
  if (kind === 'overdraw' && !isConcurrency(take.limit)) return { ...take, overdraw: true }
  const isBack = kind === 'back' && take.limit.algorithm !== 'leaky-bucket'
  return isBack ? { ...take, amount: -take.amount } : take
}

test('sequential calls are decided as in one store, by every algorithm and in every group', async () => {
  const limits = fc
    .record({
      algorithm: fc.constantFrom(...ALGORITHMS),
      max: fc.integer({ min: 1, max: 5 }),
      onRefusal: fc.constantFrom(undefined, 'charge' as const),
      debt: fc.nat({ max: 4 }),
    })
    .map(({ debt, ...spec }) => {
      if (spec.algorithm === 'concurrency') {
        return defineLimit({ ...spec, onRefusal: undefined, windowMs: 0, leaseMs: 300_000 })
      }
      const canOwe = spec.algorithm !== 'leaky-bucket'
      return defineLimit({ ...spec, windowMs: 60_000, ...(canOwe ? { debt } : {}) })
    })
  const call = fc.record({
    // For each counter the group it is in; 3 if the call does not use it.
    groups: fc.array(fc.nat({ max: 3 }), { minLength: 5, maxLength: 5 }),
    kinds: fc.array(fc.constantFrom(...KINDS), { minLength: 5, maxLength: 5 }),
    amount: fc.integer({ min: 0, max: 3 }),
    pauseMs: fc.oneof(fc.constant(0), fc.nat({ max: 14_000 })),
  })
  const given = fc.tuple(
    fc.array(limits, { minLength: 5, maxLength: 5 }),
    fc.array(call, { minLength: 1, maxLength: 20 }),
  )
  await fc.assert(
    fc.asyncProperty(given, async ([counters, calls]) => {
      const slots = new Slots()
      const clock = manualClock()
      const whole = memoryStore({ clock })
      for (const { groups: homes, kinds, amount, pauseMs } of calls) {
        clock.advance(pauseMs)
        slots.clock.advance(pauseMs)
        const groups: Groups<Take> = [0, 1, 2].map((g) =>
          // Two counters share a slot.
          counters.flatMap((limit, n) =>
            homes[n] === g
              ? [ofKind({ key: { hi: n, lo: n, partition: n >> 1 }, limit, amount }, kinds[n])]
              : [],
          ),
        )
        const slotCall = slots.start(groups, 1000)
        await slots.runAll()
        const expected = whole.sync.take(groups)
        expect(refusals(slotCall.answers?.[0])).toEqual(refusals(expected[0]))
        if (isAdmitted(slotCall)) {
          const judged = slotCall.answers?.slice(1).map(refusals)
          expect(judged).toEqual(expected.slice(1).map(refusals))
        }
        const all = counters.map((limit, n) => [
          { key: { hi: n, lo: n, partition: n >> 1 }, limit, amount: 1 },
        ])
        const [spread, one] = [slots.store.sync.peek(all), whole.sync.peek(all)]
        expect(figures(spread, all)).toEqual(figures(one, all))
      }
    }),
    { numRuns: propertyRuns(300) },
  )
}, 600_000)

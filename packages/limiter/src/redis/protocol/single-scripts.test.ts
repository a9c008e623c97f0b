/** Batches of one op that have their own script are decided as in the memory store. */
import {
  defineAdapterLimit,
  defineLimit,
  type Limit,
  MODULE_CHOICES,
  type ModuleName,
  type Outcome,
  type Take,
} from '@sluice/core'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { memoryStore } from '../../memory/memory-store.js'
import { manualClock } from '../../testing/index.js'
import {
  type Batch,
  type BatchRedis,
  keyOf,
  LAYOUTS,
  placeOf,
  startBatchRedis,
} from './redis.test-helper.js'
import type { StoreOp } from './batch-request.js'

const VALUES: readonly ModuleName[] = [
  'token-bucket',
  'gcra',
  'leaky-bucket',
  'fixed-window',
  'sliding-window-counter',
  'caller-window',
  'calendar-window',
]
const NOW = 1_767_225_600_000_000
const STEPS = 400

let redis: BatchRedis
beforeAll(async () => {
  redis = await startBatchRedis()
})
beforeEach(() => redis.client.flushall())
afterAll(() => redis.stop())

test.each(VALUES)(
  'takes of a %s and a sliding window counter in another group, with give-backs, match the memory store',
  async (algorithm) => {
    const first = defineLimit({ ...MODULE_CHOICES[algorithm], max: 4, windowMs: 60_000 })
    const second = defineLimit({ algorithm: 'sliding-window-counter', max: 3, windowMs: 5000 })
    const clock = manualClock()
    const store = memoryStore({ clock })
    const batches: Batch[] = []
    const expected: unknown[] = []
    let now = NOW
    for (let step = 0; step < STEPS; step++) {
      // Mostly forward, at times back.
      now += step % 17 === 0 ? -2_000_000 : ((step * 7919) % 5) * 700_000
      clock.set(now)
      const takes: readonly Take[] = [
        { key: keyOf(1), limit: first, amount: step % 4 },
        { key: keyOf(2), limit: second, amount: step % 3 },
      ]
      const [one, two] = takes
      if (one === undefined || two === undefined) throw new Error('two takes')
      const isGive = step % 5 === 4
      const give = { ...(step % 2 === 0 ? one : two), amount: 1, at: now, undone: step % 3 === 0 }
      const op: StoreOp = isGive
        ? { verb: 'give', give }
        : { verb: 'take', groups: [[one], [two]], states: false }
      if (isGive) store.sync.give(give)
      else expected.push(store.sync.take([[one], [two]]).map(([outcome]) => withoutState(outcome)))
      batches.push({ ops: [op], times: { notAfter: 0, now } })
    }
    const replies = await redis.run('plain', batches)
    const answers = replies.flatMap(({ answers: [answer] }) =>
      Array.isArray(answer) ? [answer.map(([outcome]) => withoutState(outcome))] : [],
    )
    expect(answers).toEqual(expected)
  },
)

test.each(
  LAYOUTS.flatMap((layout) =>
    VALUES.flatMap((algorithm) => [1, 5].map((each) => ({ layout, algorithm, each }))),
  ),
)(
  'settles of a $algorithm, $each in a batch of the $layout layout, match the memory store',
  async ({ layout, algorithm, each }) => {
    const limit = defineLimit({ ...MODULE_CHOICES[algorithm], max: 40, windowMs: 60_000 })
    const options = { algorithm: 'fixed-window', start: 'call', max: 1, windowMs: 30_000 } as const
    const mark = defineAdapterLimit(options)
    const clock = manualClock()
    const store = memoryStore({ clock })
    const batches: Batch[] = []
    const expected: unknown[] = []
    let now = NOW
    for (let step = 0; step < STEPS; step++) {
      now += step % 17 === 0 ? -2_000_000 : ((step * 7919) % 5) * 700_000
      clock.set(now)
      const ops: StoreOp[] = []
      for (let i = 0; i < each; i++) {
        const number = step * each + i
        // Some settle again what was settled just before, or long ago.
        const id = 10 + (number % 7 === 6 ? number - 1 : number % 300)
        const at = now - (number % 4) * 20_000_000
        const difference =
          number % 3 === 0
            ? { amount: 1 + (number % 50), overdraw: true }
            : { amount: -(number % 9) - 1, at: number % 11 === 0 ? undefined : at }
        const groups = [
          [{ key: keyOf(id), limit: mark, amount: 1 }],
          [{ key: keyOf(1 + (number % 2)), limit, ...difference }],
        ]
        ops.push({ verb: 'take', groups, states: false })
        expected.push(store.sync.take(groups).map(([outcome]) => comparable(outcome, limit)))
      }
      batches.push({ ops, times: { notAfter: 0, now } })
    }
    const replies = await redis.run(layout, batches)
    const answers = replies.flatMap((reply) =>
      reply.answers.map(
        (answer) => Array.isArray(answer) && answer.map(([outcome]) => comparable(outcome, limit)),
      ),
    )
    expect(answers).toEqual(expected)
  },
)

/**
 * Into a counter that is full nothing is given back. The memory store may have dropped it, and
 * Redis not: they say different things of what was granted.
 */
function comparable(outcome: unknown, { capacity }: Limit): unknown {
  const { remaining, granted } = outcome as Outcome
  const isDropped = remaining === capacity && granted <= 0
  return { ...(withoutState(outcome) as Outcome), granted: isDropped ? 0 : granted }
}

test('a settle replaces keys of another type, as in any batch', async () => {
  const limit = defineLimit({ algorithm: 'token-bucket', max: 40, windowMs: 60_000 })
  const options = { algorithm: 'fixed-window', start: 'call', max: 1, windowMs: 30_000 } as const
  const takes: readonly Take[] = [
    { key: keyOf(1), limit: defineAdapterLimit(options), amount: 1 },
    { key: keyOf(2), limit, amount: 5, overdraw: true },
  ]
  const [mark, difference] = takes
  if (mark === undefined || difference === undefined) throw new Error('two takes')
  const op: StoreOp = { verb: 'take', groups: [[mark], [difference]], states: false }
  for (const { key } of takes) await redis.client.hset(placeOf(key), 'field', '1')
  const batch = { ops: [op], times: { notAfter: 0, now: NOW } }
  const [first, second] = await redis.run('plain', [batch, batch])
  expect(first?.answers[0]).toMatchObject([[{ granted: 1 }], [{ granted: 5 }]])
  expect(second?.answers[0]).toMatchObject([[{ granted: 0 }], [{ remaining: 35 }]])
})

function withoutState(outcome: unknown): unknown {
  const { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at } = outcome as Record<
    string,
    unknown
  >
  return { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at }
}

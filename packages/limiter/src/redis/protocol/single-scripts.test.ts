/** Batches of one op that have their own script are decided as in the memory store. */
import { defineLimit, MODULE_CHOICES, type ModuleName, type Take } from '@sluice/core'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { memoryStore } from '../../memory/memory-store.js'
import { manualClock } from '../../testing/index.js'
import { type Batch, type BatchRedis, keyOf, startBatchRedis } from './redis.test-helper.js'
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

function withoutState(outcome: unknown): unknown {
  const { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at } = outcome as Record<
    string,
    unknown
  >
  return { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at }
}

import { algorithmOf, defineBlock, defineLimit, type Limit, type LimitSpec } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { mergeStates } from './merge-states.js'

const NOW = 1_767_225_600_000_000
const SECOND = 1_000_000
const SPECS: readonly LimitSpec[] = [
  { algorithm: 'token-bucket', max: 100, windowMs: 60_000 },
  { algorithm: 'gcra', max: 100, windowMs: 60_000, burst: 50 },
  { algorithm: 'fixed-window', max: 100, windowMs: 60_000 },
  { algorithm: 'fixed-window', max: 100, windowMs: 60_000, start: 'call' },
  { algorithm: 'sliding-window-counter', max: 100, windowMs: 60_000 },
  { algorithm: 'sliding-window-log', max: 100, windowMs: 60_000 },
]

/** The state after these amounts were taken, each at its time. */
function stateAfter(limit: Limit, takes: readonly (readonly [amount: number, at: number])[]) {
  let state: unknown
  for (const [amount, at] of takes) {
    state = algorithmOf(limit).take(state, limit, amount, at).state ?? state
  }
  return state
}

function remaining(state: unknown, limit: Limit, at: number): number {
  return algorithmOf(limit).peek(state, limit, 0, at).remaining
}

describe.each(SPECS.map((spec) => [spec.algorithm, defineLimit(spec)] as const))(
  'two states of a %s',
  (_, limit) => {
    const here = stateAfter(limit, [[10, NOW]])
    const there = stateAfter(limit, [[7, NOW]])

    test('add up what both have counted', () => {
      expect(remaining(mergeStates(here, there, limit, NOW), limit, NOW)).toBe(limit.capacity - 17)
    })

    test('add up to the same in either order', () => {
      const later = NOW + 5 * SECOND
      const one = remaining(mergeStates(here, there, limit, later), limit, later)
      expect(remaining(mergeStates(there, here, limit, later), limit, later)).toBe(one)
    })

    test('never hold more than the limit does', () => {
      const full = stateAfter(limit, [[limit.capacity, NOW]])
      const merged = mergeStates(full, full, limit, NOW)
      expect(remaining(merged, limit, NOW)).toBe(0)
      const reset = algorithmOf(limit).peek(merged, limit, 0, NOW).resetAfterMs
      expect(reset).toBeLessThanOrEqual(2 * 60_000)
    })

    test('forget what has expired', () => {
      const later = NOW + 200 * SECOND
      const state = mergeStates(stateAfter(limit, [[3, later]]), there, limit, later)
      expect(remaining(state, limit, later)).toBe(limit.capacity - 3)
    })
  },
)

test('two states of a sliding counter add up in both of their windows', () => {
  const limit = defineLimit({ algorithm: 'sliding-window-counter', max: 100, windowMs: 60_000 })
  const middle = NOW + 90 * SECOND
  const here = stateAfter(limit, [
    [20, NOW],
    [5, middle],
  ])
  const there = stateAfter(limit, [
    [40, NOW],
    [10, middle],
  ])
  expect(mergeStates(here, there, limit, middle)).toEqual({
    start: NOW + 60 * SECOND,
    curr: 15,
    prev: 60,
  })
})

test('two logs are one log in the order of time, with one entry for each instant', () => {
  const limit = defineLimit({ algorithm: 'sliding-window-log', max: 100, windowMs: 60_000 })
  expect(mergeStates([1, 2, 5, 1], [1, 3, 4, 1], limit, NOW)).toEqual([1, 5, 4, 1, 5, 1])
})

test('the places of a holder are the larger of its two records', () => {
  const limit = defineLimit({ algorithm: 'concurrency', max: 100, windowMs: 0 })
  const here = [1, 3, NOW + 1, 2, 1, NOW + 1]
  const there = [1, 2, NOW + 9, 3, 4, NOW + 1]
  const both = [1, 3, NOW + 9, 2, 1, NOW + 1, 3, 4, NOW + 1]
  expect(mergeStates(here, there, limit, NOW)).toEqual(both)
})

test('places that have expired are not taken again by a later record of their holder', () => {
  const limit = defineLimit({ algorithm: 'concurrency', max: 100, windowMs: 0 })
  const expired = [1, 50, NOW, 2, 50, NOW - 1]
  const present = [1, 2, NOW + 9]
  expect(mergeStates(expired, present, limit, NOW)).toEqual(present)
  expect(mergeStates(present, expired, limit, NOW)).toEqual(present)
})

test('a queue keeps its own state', () => {
  const limit = defineLimit({ algorithm: 'leaky-bucket', max: 10, windowMs: 1000, queue: 5 })
  const state = stateAfter(limit, [[1, NOW]])
  expect(mergeStates(state, state, limit, NOW)).toBeUndefined()
})

test('of two blocks the longer one holds', () => {
  const block = defineBlock('all', { firstMs: 1000, factor: 2, maxMs: 60_000, forgetMs: 60_000 })
  const merged = mergeStates({ until: 5, times: 2 }, { until: 7, times: 1 }, block, NOW)
  expect(merged).toEqual({ until: 7, times: 2 })
})

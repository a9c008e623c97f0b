import { formatHash } from '@sluice/core'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { hashOf, textOf } from './caller-tracker.test-helper.js'
import { RuleTop } from './rule-top.js'
import { SKETCH_SIZE } from './space-saving.js'

const ALWAYS = { acquire: () => true }

function count(top: RuleTop, callers: readonly number[]): void {
  for (const caller of callers) {
    const { hi, lo } = hashOf(caller)
    top.add(hi, lo, 1, 0)
  }
}

/** Some frequent callers, and more others than there are places. */
const crowds = fc.array(fc.oneof(fc.nat(30), fc.nat(150)), { maxLength: 600, size: 'max' })

test('the highest callers are those with the highest counts of both periods together', () => {
  fc.assert(
    fc.property(crowds, crowds, fc.integer({ min: 1, max: 40 }), (before, present, limit) => {
      const top = new RuleTop(ALWAYS)
      count(top, before)
      top.rotate()
      count(top, present)
      const figureOf = (caller: number) => {
        const { hi, lo } = hashOf(caller)
        return top.estimate(hi, lo).count
      }
      const everybody = [...new Set([...before, ...present])]
      const chosen = new Set(top.highest(limit).map(formatHash))
      expect(chosen.size).toBe(Math.min(limit, everybody.length))
      const isChosen = (caller: number) => chosen.has(textOf(caller))
      const least = Math.min(...everybody.filter(isChosen).map(figureOf))
      for (const caller of everybody) {
        if (!isChosen(caller)) expect(figureOf(caller)).toBeLessThanOrEqual(least)
      }
    }),
    { numRuns: 100, endOnFailure: true },
  )
})

test('a caller missing in one period may have had as much there as the smallest count', () => {
  const top = new RuleTop(ALWAYS)
  for (let caller = 0; caller < SKETCH_SIZE; caller++) count(top, [caller, caller, caller])
  top.rotate()
  count(top, [500, 500])
  const { hi, lo } = hashOf(500)
  expect(top.estimate(hi, lo)).toEqual({ count: 5, error: 3 })
  top.rotate()
  expect(top.estimate(hi, lo)).toEqual({ count: 2, error: 0 })
  top.rotate()
  expect([top.size, top.estimate(hi, lo).count]).toEqual([0, 0])
})

test('a rule without a slot has no callers, and requests a slot once', () => {
  let requests = 0
  const top: RuleTop = new RuleTop({
    acquire(who) {
      requests++
      who.isWaiting = true
      return false
    },
  })
  count(top, [1, 1, 1])
  expect([requests, top.activity, top.hasSketch, top.size]).toEqual([1, 3, false, 0])
  expect(top.highest(20)).toEqual([])
})

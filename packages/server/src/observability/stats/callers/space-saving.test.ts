import fc from 'fast-check'
import { expect, test } from 'vitest'
import { hashOf } from './caller-tracker.test-helper.js'
import { SKETCH_SIZE, SpaceSaving } from './space-saving.js'

/** The exact counts. */
function count(stream: readonly (readonly [number, number])[]) {
  const truth = new Map<number, number>()
  let total = 0
  const sketch = new SpaceSaving()
  for (const [caller, amount] of stream) {
    const { hi, lo } = hashOf(caller)
    sketch.add(hi, lo, amount, 0)
    truth.set(caller, (truth.get(caller) ?? 0) + amount)
    total += amount
  }
  return { sketch, truth, total }
}

function placeOf(sketch: SpaceSaving, caller: number): number {
  const { hi, lo } = hashOf(caller)
  return sketch.find(hi, lo)
}

// A few callers come often, many once or twice.
const caller = fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 2000 }))
const amount = fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 1000 }))
const streams = fc.array(fc.tuple(caller, amount), { minLength: 1, maxLength: 3000, size: 'max' })

/** Shrinking thousands of events would take minutes; the seed is enough. */
const RUNS = { numRuns: 50, endOnFailure: true }

test('a count is never too low, and at most its error too high', () => {
  fc.assert(
    fc.property(streams, (stream) => {
      const { sketch, truth } = count(stream)
      for (const [who, real] of truth) {
        const place = placeOf(sketch, who)
        if (place === -1) {
          expect(real).toBeLessThanOrEqual(sketch.floor)
          continue
        }
        const estimate = sketch.countAt(place)
        expect(estimate).toBeGreaterThanOrEqual(real)
        expect(estimate).toBeLessThanOrEqual(real + sketch.errorAt(place))
      }
      expect(sketch.size).toBe(Math.min(SKETCH_SIZE, truth.size))
    }),
    RUNS,
  )
})

test('every caller with more than a 64th of the total has a place', () => {
  fc.assert(
    fc.property(streams, (stream) => {
      const { sketch, truth, total } = count(stream)
      for (const [who, real] of truth) {
        if (real > total / SKETCH_SIZE) expect(placeOf(sketch, who)).not.toBe(-1)
      }
      expect(sketch.floor).toBeLessThanOrEqual(total / SKETCH_SIZE)
    }),
    RUNS,
  )
})

test('with fewer callers than places every count is exact', () => {
  const { sketch, truth } = count(Array.from({ length: 640 }, (_, i) => [i % 63, i] as const))
  for (const [who, real] of truth) {
    expect(sketch.countAt(placeOf(sketch, who))).toBe(real)
    expect(sketch.errorAt(placeOf(sketch, who))).toBe(0)
  }
  expect(sketch.floor).toBe(0)
})

test('a caller that replaced another gets a label when it calls again', () => {
  const sketch = new SpaceSaving()
  for (let i = 0; i < SKETCH_SIZE; i++) {
    const { hi, lo } = hashOf(i)
    const place = sketch.add(hi, lo, 2, 0)
    expect(place).not.toBe(-1)
    sketch.setLabel(place, `u${i}`)
  }
  const late = hashOf(999)
  expect(sketch.add(late.hi, late.lo, 1, 0)).toBe(-1)
  const place = sketch.add(late.hi, late.lo, 1, 5)
  expect(place).toBe(sketch.find(late.hi, late.lo))
  expect(sketch.labelAt(place)).toBeUndefined()
  sketch.setLabel(place, 'late')
  expect(sketch.add(late.hi, late.lo, 1, 7)).toBe(-1)
  expect([sketch.countAt(place), sketch.errorAt(place), sketch.lastMsAt(place)]).toEqual([5, 2, 7])
})

test('a cleared sketch is empty', () => {
  const { sketch } = count(Array.from({ length: 500 }, (_, i) => [i, 1] as const))
  sketch.clear()
  expect([sketch.size, sketch.floor, placeOf(sketch, 499)]).toEqual([0, 0, -1])
  const { hi, lo } = hashOf(1)
  sketch.add(hi, lo, 1, 0)
  expect(sketch.countAt(placeOf(sketch, 1))).toBe(1)
})

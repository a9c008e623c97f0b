import fc from 'fast-check'
import { expect, test } from 'vitest'
import { CallerIndex } from './caller-index.js'
import { propertyRuns } from '../../../../../../tools/property-runs.js'

test('a caller is found under its slot and no other, however full the index', () => {
  const key = fc.record({
    rule: fc.integer({ min: 0, max: 2 }),
    hi: fc.integer({ min: -2, max: 2 }),
    // Few low halves: long chains, also around the end of the table.
    lo: fc.constantFrom(0, 1, 2, -1, 63, 0x7fffffff),
  })
  const step = fc.record({ slot: fc.integer({ min: 0, max: 15 }), key, isDrop: fc.boolean() })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
      const index = new CallerIndex(16)
      const model = new Map<string, number>()
      for (const { slot, key: caller, isDrop } of steps) {
        const text = JSON.stringify(caller)
        const held = [...model].find(([, taken]) => taken === slot)
        if (isDrop && held !== undefined) {
          index.remove(slot)
          model.delete(held[0])
        } else if (!isDrop && held === undefined && !model.has(text)) {
          index.insert(slot, caller.rule, caller.hi, caller.lo)
          model.set(text, slot)
        }
        for (const { key: any } of steps) {
          const found = index.find(any.rule, any.hi, any.lo)
          expect(found).toBe(model.get(JSON.stringify(any)) ?? -1)
        }
      }
    }),
    { numRuns: propertyRuns(60) },
  )
})

test('signed and unsigned halves of a hash are the same caller', () => {
  const index = new CallerIndex(16)
  index.insert(3, 1, -1, -2)
  expect(index.find(1, 0xffffffff, 0xfffffffe)).toBe(3)
  expect([index.ruleAt(3), index.hiAt(3), index.loAt(3)]).toEqual([1, -1, -2])
})

test('the same caller of two rules has two slots', () => {
  const index = new CallerIndex(16)
  index.insert(0, 1, 7, 9)
  index.insert(1, 2, 7, 9)
  expect([index.find(1, 7, 9), index.find(2, 7, 9), index.find(3, 7, 9)]).toEqual([0, 1, -1])
  index.clear()
  expect(index.find(1, 7, 9)).toBe(-1)
})

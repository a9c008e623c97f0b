import fc from 'fast-check'
import { expect, test } from 'vitest'
import { EXACT_MAX, ExactDistinct } from './exact-distinct.js'

/** Few different halves, so that hashes collide and repeat. */
const halves = fc.constantFrom(0, 1, 16, 17, 128, 1 << 20, -1, 0xffffffff, 0x80000000)
const steps = fc.array(
  fc.oneof(
    { weight: 9, arbitrary: fc.tuple(halves, halves) },
    { weight: 1, arbitrary: fc.constant('forget' as const) },
  ),
  { maxLength: 300 },
)

test('the set maps hashes to the slice in which they were last seen, up to its bound', () => {
  fc.assert(
    fc.property(steps, (script) => {
      const exact = new ExactDistinct()
      const model = new Map<string, number>()
      script.forEach((step, index) => {
        const slice = index + 1
        if (step === 'forget') {
          exact.forget(slice - 20)
          for (const [key, last] of model) if (last <= slice - 20) model.delete(key)
          return
        }
        const [hi, lo] = step
        const key = `${hi | 0} ${lo | 0}`
        const fits = model.has(key) || model.size < EXACT_MAX
        expect(exact.add(hi, lo, slice)).toBe(fits)
        if (fits) model.set(key, slice)
      })
      const held = new Map<string, number>()
      exact.each((hi, lo, slice) => held.set(`${hi} ${lo}`, slice))
      expect(held).toEqual(model)
      expect(exact.size).toBe(model.size)
    }),
  )
})

test('the set starts small, and takes at most twice what its callers need', () => {
  const exact = new ExactDistinct()
  expect(exact.bytes).toBe(192)
  for (let i = 0; i < EXACT_MAX; i++) expect(exact.add(i, i, 1)).toBe(true)
  expect(exact.add(1, 1, 2)).toBe(true)
  expect(exact.add(-1, -1, 2)).toBe(false)
  expect(exact.bytes).toBe(EXACT_MAX * 24)
})

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { FEW_MAX, FewCallers } from './few-callers.js'

/** Few different halves, so that hashes meet in one place and come again. */
const halves = fc.constantFrom(0, 1, 16, 17, 128, 1 << 20, -1, 0xffffffff, 0x80000000)
const steps = fc.array(
  fc.oneof(
    { weight: 9, arbitrary: fc.tuple(halves, halves) },
    { weight: 1, arbitrary: fc.constant('forget' as const) },
  ),
  { maxLength: 300 },
)

test('it is a map from hashes to the slice they were last seen in, up to its bound', () => {
  fc.assert(
    fc.property(steps, (script) => {
      const few = new FewCallers()
      const model = new Map<string, number>()
      script.forEach((step, index) => {
        const slice = index + 1
        if (step === 'forget') {
          few.forget(slice - 20)
          for (const [key, last] of model) if (last <= slice - 20) model.delete(key)
          return
        }
        const [hi, lo] = step
        const key = `${hi | 0} ${lo | 0}`
        const fits = model.has(key) || model.size < FEW_MAX
        expect(few.add(hi, lo, slice)).toBe(fits)
        if (fits) model.set(key, slice)
      })
      const held = new Map<string, number>()
      few.each((hi, lo, slice) => held.set(`${hi} ${lo}`, slice))
      expect(held).toEqual(model)
      expect(few.size).toBe(model.size)
    }),
  )
})

test('it takes little at first, and at most twice what its callers need', () => {
  const few = new FewCallers()
  expect(few.bytes).toBe(192)
  for (let i = 0; i < FEW_MAX; i++) expect(few.add(i, i, 1)).toBe(true)
  expect(few.add(1, 1, 2)).toBe(true)
  expect(few.add(-1, -1, 2)).toBe(false)
  expect(few.bytes).toBe(FEW_MAX * 24)
})

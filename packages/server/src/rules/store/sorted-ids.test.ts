import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SortedIds } from './sorted-ids.js'

const someId = fc.string({ minLength: 1, maxLength: 3, unit: fc.constantFrom('a', 'b', '漢', '~') })

test('pages contain every id once, in order, whatever was added and removed', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.boolean(), someId), { maxLength: 200 }),
      fc.integer({ min: 1, max: 7 }),
      (steps, limit) => {
        const ids = new SortedIds()
        const model = new Set<string>()
        for (const [isAdded, id] of steps) {
          if (isAdded) ids.add(id)
          else ids.delete(id)
          if (isAdded) model.add(id)
          else model.delete(id)
        }
        const listed: string[] = []
        for (;;) {
          const page = ids.page(listed.at(-1), limit)
          listed.push(...page)
          if (page.length < limit) break
        }
        expect(listed).toEqual([...model].toSorted((a, b) => (a < b ? -1 : 1)))
      },
    ),
  )
})

test('many ids stay in order, in whichever order they are added and removed', () => {
  const ids = new SortedIds()
  const name = (index: number) => `k${String((index * 7919) % 5000).padStart(5, '0')}`
  const names = Array.from({ length: 5000 }, (_, index) => name(index))
  for (const id of names) ids.add(id)
  const all = Array.from({ length: 5000 }, (_, index) => `k${String(index).padStart(5, '0')}`)
  expect(ids.page(undefined, Infinity)).toEqual(all)
  expect(new SortedIds(names).page(undefined, Infinity)).toEqual(all)
  expect(ids.page('k02499', 3)).toEqual(['k02500', 'k02501', 'k02502'])
  for (const id of all.slice(100, 4900)) ids.delete(id)
  expect(ids.page('k00098', 3)).toEqual(['k00099', 'k04900', 'k04901'])
  for (const id of all) ids.delete(id)
  expect(ids.page(undefined, 3)).toEqual([])
})

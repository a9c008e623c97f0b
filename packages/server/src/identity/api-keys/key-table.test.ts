import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { KeyTable, type TableKey } from './key-table.js'

const hashOf = (name: string | number) => createHash('sha256').update(String(name)).digest('hex')

const aKey = fc.record({
  user: fc.option(fc.string({ maxLength: 5 }), { nil: undefined }),
  plan: fc.constantFrom('free', 'pro', undefined),
  state: fc.constantFrom('active' as const, 'disabled' as const),
})
const aStep = fc.record({
  name: fc.nat(40),
  key: fc.option(aKey, { nil: undefined, freq: 3 }),
})

function describeKey(table: KeyTable, name: string | number): TableKey | undefined {
  const found = table.find(hashOf(name))
  return found && { user: found.user, plan: found.plan, state: found.state }
}

describe('a table of keys', () => {
  test('answers like a Map after any puts and removals', () => {
    fc.assert(
      fc.property(fc.array(aStep, { maxLength: 300 }), (steps) => {
        const table = new KeyTable()
        const map = new Map<number, TableKey>()
        for (const { name, key } of steps) {
          if (key === undefined) {
            table.remove(hashOf(name))
            map.delete(name)
          } else {
            table.set(hashOf(name), key)
            map.set(name, key)
          }
          expect(describeKey(table, name)).toEqual(map.get(name))
        }
        expect(table.size).toBe(map.size)
        for (let name = 0; name <= 40; name++)
          expect(describeKey(table, name)).toEqual(map.get(name))
      }),
    )
  })

  test('finds each of 100,000 keys and none of 100,000 others', () => {
    const table = new KeyTable()
    for (let i = 0; i < 100_000; i++) {
      table.set(hashOf(i), { user: `u${i}`, plan: 'pro', state: 'active' })
    }
    let wrong = 0
    for (let i = 0; i < 100_000; i++) {
      if (table.find(hashOf(i))?.user !== `u${i}`) wrong++
      if (table.find(hashOf(-1 - i)) !== undefined) wrong++
    }
    expect(wrong).toBe(0)
    expect(table.size).toBe(100_000)
  })

  test('does not grow with keys that come and go', () => {
    const table = new KeyTable()
    for (let i = 0; i < 20_000; i++) {
      table.set(hashOf(i), { state: 'active' })
      table.remove(hashOf(i))
    }
    expect(table.size).toBe(0)
    expect(table.find(hashOf(19_999))).toBeUndefined()
  })

  test('returns the current record of a changed key, also if it was looked up before', () => {
    const table = new KeyTable()
    table.set(hashOf('a'), { user: 'ann', plan: 'free', state: 'active' })
    expect(describeKey(table, 'a')).toEqual({ user: 'ann', plan: 'free', state: 'active' })
    table.set(hashOf('a'), { user: 'ann', plan: 'pro', state: 'disabled' })
    expect(describeKey(table, 'a')).toEqual({ user: 'ann', plan: 'pro', state: 'disabled' })
  })
})

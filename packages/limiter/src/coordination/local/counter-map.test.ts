import { expect, test } from 'vitest'
import { CounterMap } from './counter-map.js'

const thing = (hi: number, lo: number) => ({ key: { hi, lo, partition: 0 } })

test('entries of keys that share a half are distinguished and deleted one by one', () => {
  const things = new CounterMap()
  const all = [thing(1, 7), thing(2, 7), thing(3, 7), thing(1, 8)]
  for (const each of all) things.add(each)
  expect(things.size).toBe(4)
  for (const each of all) expect(things.get({ ...each.key })).toBe(each)
  expect(things.get({ hi: 4, lo: 7, partition: 0 })).toBeUndefined()
  expect(things.get({ hi: 2, lo: 8, partition: 0 })).toBeUndefined()

  const left = new Set(all)
  for (const each of all) {
    things.delete(each)
    things.delete(each)
    left.delete(each)
    expect(things.size).toBe(left.size)
    for (const other of all) expect(things.get(other.key)).toBe(left.has(other) ? other : undefined)
  }
})

import { expect, test } from 'vitest'
import { CounterTable } from './counter-table.js'

const keyOf = (n: number, partition = 0) => ({
  hi: Math.imul(n, 0x9e3779b1) | 0,
  lo: Math.imul(n, 0x85ebca6b) | 0,
  partition,
})

test('a counter keeps one number however often it appears, also while the table grows', () => {
  const table = new CounterTable()
  for (let batch = 0; batch < 3; batch++) {
    table.start()
    const numbers = Array.from({ length: 3000 }, (_, n) => table.find(keyOf(n), 0))
    expect(numbers).toEqual(numbers.map((_, n) => n))
    expect(numbers.map((_, n) => table.find(keyOf(n), 0))).toEqual(numbers)
    expect(table.size).toBe(3000)
    expect([table.hi(77), table.lo(77), table.partition(77)]).toEqual(Object.values(keyOf(77)))
  }
})

test('another half of the hash, another partition or another kind makes another counter', () => {
  const table = new CounterTable()
  table.start()
  const key = { hi: 1, lo: 2, partition: 3 }
  const others = [
    { ...key, hi: 0 },
    { ...key, lo: 0 },
    { ...key, partition: 0 },
  ]
  expect([key, ...others].map((other) => table.find(other, 0))).toEqual([0, 1, 2, 3])
  expect(table.find(key, 1)).toBe(4)
})

test('uses accumulate within a batch and are reset for the next', () => {
  const table = new CounterTable()
  table.start()
  table.use(table.find(keyOf(1), 0), 1)
  table.use(table.find(keyOf(1), 0), 2)
  expect(table.uses(0)).toBe(3)
  table.start()
  expect(table.uses(table.find(keyOf(1), 0))).toBe(0)
})

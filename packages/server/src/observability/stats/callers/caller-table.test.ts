import fc from 'fast-check'
import { expect, test } from 'vitest'
import { hashOf } from './caller-tracker.test-helper.js'
import { CallerTable, PROTECTED_MAX, TABLE_SLOTS } from './caller-table.js'

const RULE = 1

function enter(table: CallerTable, caller: number, nowMs = 0): number {
  const { hi, lo } = hashOf(caller)
  return table.insert(RULE, hi, lo, nowMs)
}

function find(table: CallerTable, caller: number): number {
  const { hi, lo } = hashOf(caller)
  return table.find(RULE, hi, lo)
}

/** Calls until the table admits it. */
function insist(table: CallerTable, caller: number): number {
  for (let tries = 1; tries < 1000; tries++) if (enter(table, caller) !== -1) return tries
  return Infinity
}

test('a full table evicts the least recently seen probationary caller', () => {
  const table = new CallerTable()
  for (let i = 0; i < TABLE_SLOTS; i++) enter(table, i)
  table.touch(find(table, 0), 1)
  insist(table, 10_001)
  insist(table, 10_002)
  expect([0, 1, 2, 3].map((caller) => find(table, caller) !== -1)).toEqual([
    true,
    false,
    false,
    true,
  ])
  expect(table.size).toBe(TABLE_SLOTS)
})

test('protected callers survive any number of newcomers', () => {
  const table = new CallerTable()
  for (let i = 0; i < PROTECTED_MAX; i++) table.promote(enter(table, i))
  expect(table.hasProtectedRoom).toBe(false)
  for (let i = 0; i < 100_000; i++) enter(table, 10_000 + i)
  for (let i = 0; i < PROTECTED_MAX; i++) expect(find(table, i)).not.toBe(-1)
  expect(table.size).toBe(TABLE_SLOTS)
})

test('a frequent caller is soon admitted, however many others call once', () => {
  const table = new CallerTable()
  for (let i = 0; i < 50_000; i++) enter(table, i)
  const tries = Array.from({ length: 50 }, (_, i) => insist(table, 100_000 + i))
  expect(Math.max(...tries)).toBeLessThan(100)
})

test('a demoted caller is the last probationary one to be evicted', () => {
  const table = new CallerTable()
  const slot = enter(table, 0)
  table.promote(slot)
  for (let i = 1; i < TABLE_SLOTS; i++) enter(table, i)
  table.demote(slot)
  insist(table, 10_001)
  expect([find(table, 0), find(table, 1)]).toEqual([slot, -1])
})

test('removing a rule removes all its callers', () => {
  const table = new CallerTable()
  enter(table, 1)
  const { hi, lo } = hashOf(2)
  table.setLabel(table.insert(2, hi, lo, 0), 'kept')
  table.removeRule(RULE)
  expect([table.size, find(table, 1), table.labelAt(table.find(2, hi, lo))]).toEqual([
    1,
    -1,
    'kept',
  ])
})

test('slots, counts and lookups agree after any sequence of operations', () => {
  const step = fc.tuple(
    fc.constantFrom('enter', 'touch', 'settle', 'unsettle', 'remove'),
    fc.nat(30),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200, size: 'max' }), (steps) => {
      const table = new CallerTable()
      const model = new Map<number, boolean>()
      for (const [action, caller] of steps) {
        const slot = find(table, caller)
        expect(slot !== -1).toBe(model.has(caller))
        if (slot === -1) {
          if (action === 'enter') model.set(caller, false)
          if (action === 'enter') enter(table, caller)
          continue
        }
        if (action === 'touch') table.touch(slot, 1)
        if (action === 'settle' && table.isProbationary(slot)) {
          table.promote(slot)
          model.set(caller, true)
        }
        if (action === 'unsettle' && table.isProtected(slot)) {
          table.demote(slot)
          model.set(caller, false)
        }
        if (action === 'remove') {
          table.remove(slot)
          model.delete(caller)
        }
      }
      expect(table.size).toBe(model.size)
      for (const [caller, isSettled] of model) {
        expect(table.isProtected(find(table, caller))).toBe(isSettled)
      }
      let seen = 0
      table.each(() => seen++)
      expect(seen).toBe(model.size)
    }),
  )
})

import { describe, expect, test } from 'vitest'
import { UnreportedUsage } from './unreported-usage.js'

const WINDOW = { windowUs: 1000 }

describe('UnreportedUsage', () => {
  test('unreported usage is one sum for each window, at the time of its last unit', () => {
    const pending = new UnreportedUsage(WINDOW)
    pending.add(2, 5100)
    pending.add(3, 5900)
    pending.add(1, 5400)
    pending.add(4, 6000)
    expect(pending.usages).toEqual([
      { amount: 6, at: 5900 },
      { amount: 4, at: 6000 },
    ])
  })

  test('unreported usage moves to now when the clock steps back by more than a window', () => {
    const pending = new UnreportedUsage(WINDOW)
    pending.spend(2, 8000)
    pending.spend(3, 9000)
    expect(pending.spend(4, 5000)).toBe(0)
    expect(pending.usages).toEqual([{ amount: 9, at: 5000 }])
    expect(pending.expire(2000)).toBe(0)
    expect(pending.usages).toEqual([{ amount: 9, at: 2000 }])
  })

  test('unreported usage of the window before the last is dropped and returned', () => {
    const pending = new UnreportedUsage(WINDOW)
    expect(pending.add(2, 5000)).toBe(0)
    expect(pending.add(3, 6000)).toBe(0)
    expect(pending.add(4, 7000)).toBe(2)
    expect(pending.add(5, 9000)).toBe(7)
    expect(pending.add(6, 7999)).toBe(6)
    expect(pending.usages).toEqual([{ amount: 5, at: 9000 }])
  })

  test('unreported usage may still be spent in the last window after the new one began', () => {
    const pending = new UnreportedUsage(WINDOW)
    pending.add(1, 6000)
    pending.add(2, 5999)
    expect(pending.usages).toEqual([
      { amount: 2, at: 5999 },
      { amount: 1, at: 6000 },
    ])
  })

  test('unreported usage expires as time goes by', () => {
    const pending = new UnreportedUsage(WINDOW)
    pending.add(2, 5000)
    expect(pending.expire(6999)).toBe(0)
    expect(pending.expire(7000)).toBe(2)
    expect(pending.isEmpty).toBe(true)
    expect(pending.expire(99_000)).toBe(0)
  })

  test.each([
    ['all of it', 3, 5100, 3],
    ['no more than there is', 9, 5100, 3],
    ['of the newer window', 9, 6100, 5],
    ['not of another window', 1, 4900, 0],
    ['not of a window to come', 1, 7000, 0],
  ])('unreported usage takes back %s', (_, amount, at, found) => {
    const pending = new UnreportedUsage(WINDOW)
    pending.add(3, 5000)
    pending.add(5, 6000)
    expect(pending.takeBack(amount, at)).toBe(found)
    const left = pending.usages.reduce((sum, spent) => sum + spent.amount, 0)
    expect(left).toBe(8 - found)
  })

  test('unreported usage is drained whole, and starts over', () => {
    const pending = new UnreportedUsage(WINDOW)
    pending.add(3, 5000)
    expect(pending.drain()).toEqual([{ amount: 3, at: 5000 }])
    expect(pending.isEmpty).toBe(true)
    pending.add(1, 5500)
    expect(pending.usages).toEqual([{ amount: 1, at: 5500 }])
  })
})

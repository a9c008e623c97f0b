import { type CounterKey, defineLimit } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { Outbox } from './outbox.js'

const WINDOW = defineLimit({ algorithm: 'fixed-window', max: 100, windowMs: 10_000 })
const key = (lo: number): CounterKey => ({ hi: 7, lo, partition: 3 })
const at = (seconds: number) => seconds * 1_000_000

function change(lo: number, amount: number, seconds: number, nowMs = 0) {
  return { key: key(lo), limit: WINDOW, amount, at: at(seconds), nowMs }
}

/** Each report as `lo: spent by window | returned by window`. */
function textOf(reports: ReturnType<Outbox['drain']>) {
  return reports.map(({ key: { lo }, spent, returned }) => {
    const [units, back] = [spent, returned].map((usages) => usages.map(({ amount }) => amount))
    return `${lo}: ${units?.join('+')} | ${back?.join('+')}`
  })
}

describe('an outbox', () => {
  test('sums the units of a counter by window, oldest window first', () => {
    const outbox = new Outbox()
    outbox.spend(change(1, 2, 1009))
    outbox.spend(change(1, 3, 1011))
    outbox.spend(change(1, 4, 1012))
    expect(outbox.size).toBe(1)
    const [report] = outbox.drain(10, at(1013))
    expect(report?.spent).toEqual([
      { amount: 2, at: at(1009) },
      { amount: 7, at: at(1012) },
    ])
    expect([outbox.size, outbox.dropped]).toEqual([0, 0])
  })

  test('drains the counters that wait longest, as many as are wanted', () => {
    const outbox = new Outbox()
    for (const lo of [5, 3, 9]) outbox.spend(change(lo, lo, 1000))
    expect(textOf(outbox.drain(2, at(1000)))).toEqual(['5: 5 | ', '3: 3 | '])
    expect(textOf(outbox.drain(2, at(1000)))).toEqual(['9: 9 | '])
  })

  test('drops units of a window before the last one, and counts them', () => {
    const outbox = new Outbox()
    outbox.spend(change(1, 2, 1000))
    outbox.spend(change(2, 4, 1010))
    expect(textOf(outbox.drain(10, at(1025)))).toEqual(['2: 4 | '])
    expect(outbox.dropped).toBe(2)
  })

  test('expires what waits without draining it', () => {
    const outbox = new Outbox()
    outbox.spend(change(1, 2, 1000))
    outbox.expire(at(1015))
    expect([outbox.size, outbox.dropped]).toEqual([1, 0])
    outbox.expire(at(1020))
    expect([outbox.size, outbox.dropped]).toEqual([0, 2])
  })

  test('needs no return of units that the region does not know yet', () => {
    const outbox = new Outbox()
    outbox.spend(change(1, 5, 1000))
    outbox.giveBack(change(1, 2, 1000))
    expect(textOf(outbox.drain(10, at(1000)))).toEqual(['1: 3 | '])
    outbox.spend(change(1, 5, 1000))
    outbox.giveBack(change(1, 5, 1000))
    expect(outbox.size).toBe(0)
  })

  test('returns the rest of more units than wait', () => {
    const outbox = new Outbox()
    outbox.spend(change(1, 5, 1000))
    outbox.giveBack(change(1, 7, 1000))
    expect(textOf(outbox.drain(10, at(1000)))).toEqual(['1:  | 2'])
  })

  test('returns units to their own window only', () => {
    const outbox = new Outbox()
    outbox.spend(change(1, 5, 1011))
    outbox.giveBack(change(1, 2, 1009))
    const [report] = outbox.drain(10, at(1011))
    expect(report?.spent).toEqual([{ amount: 5, at: at(1011) }])
    expect(report?.returned).toEqual([{ amount: 2, at: at(1009) }])
  })

  test('drops the counters that wait longest when it is full, and counts their units', () => {
    const outbox = new Outbox(2)
    for (const lo of [1, 2, 3]) outbox.spend(change(lo, 10 * lo, 1000))
    expect([outbox.size, outbox.dropped]).toEqual([2, 10])
    expect(textOf(outbox.drain(10, at(1000)))).toEqual(['2: 20 | ', '3: 30 | '])
  })

  test('puts back what did not run beside what was added since', () => {
    const outbox = new Outbox()
    outbox.spend(change(1, 5, 1000, 30))
    const [report] = outbox.drain(10, at(1000))
    if (report === undefined) throw new Error('no report')
    outbox.spend(change(1, 2, 1001, 90))
    outbox.restore(report, { amount: 5, at: at(1000) }, 'spent')
    expect(textOf(outbox.drain(10, at(1001)))).toEqual(['1: 7 | '])
  })

  test('knows since when the oldest unit waits, also after it came back', () => {
    const outbox = new Outbox()
    expect(outbox.oldestMs()).toBeUndefined()
    outbox.spend(change(1, 5, 1000, 30))
    outbox.spend(change(2, 5, 1000, 60))
    expect(outbox.oldestMs()).toBe(30)
    const [report] = outbox.drain(1, at(1000))
    expect(outbox.oldestMs()).toBe(60)
    if (report === undefined) throw new Error('no report')
    outbox.restore(report, { amount: 5, at: at(1000) }, 'spent')
    expect(outbox.oldestMs()).toBe(30)
  })

  test('puts back what was spent after a reset, while something else is still on its way', () => {
    const outbox = new Outbox()
    outbox.forget(key(1))
    outbox.spend(change(1, 3, 1001))
    const [report] = outbox.drain(10, at(1002))
    if (report?.spent[0] === undefined) throw new Error('no report')
    outbox.restore(report, report.spent[0], 'spent')
    expect(textOf(outbox.drain(10, at(1002)))).toEqual(['1: 3 | '])
  })

  test('drops what is too old of a limit that has changed', () => {
    const outbox = new Outbox()
    outbox.spend(change(1, 3, 1001))
    const limit = defineLimit({ algorithm: 'fixed-window', max: 100, windowMs: 60_000 })
    outbox.spend({ ...change(1, 4, 1001), limit })
    outbox.expire(at(1030))
    expect([outbox.size, outbox.dropped]).toEqual([1, 3])
    outbox.spend({ ...change(1, 5, 1031), limit: WINDOW })
    expect(textOf(outbox.drain(10, at(1050)))).toEqual(['1: 4 | '])
    expect(outbox.dropped).toBe(8)
  })

  test('forgets a counter that is reset, and what comes back of it', () => {
    const outbox = new Outbox()
    outbox.spend(change(1, 5, 1000))
    const [report] = outbox.drain(10, at(1000))
    outbox.spend(change(1, 6, 1000))
    outbox.spend(change(2, 7, 1000))
    outbox.forget(key(1))
    if (report === undefined) throw new Error('no report')
    outbox.restore(report, { amount: 5, at: at(1000) }, 'spent')
    expect(textOf(outbox.drain(10, at(1000)))).toEqual(['2: 7 | '])
    outbox.onSettled()
    outbox.spend(change(1, 8, 1000))
    expect(textOf(outbox.drain(10, at(1000)))).toEqual(['1: 8 | '])
  })

  test('reports units under the limit that they were spent under when its windows change', () => {
    const outbox = new Outbox()
    outbox.spend(change(1, 5, 1000))
    const hourly = defineLimit({ algorithm: 'fixed-window', max: 9, windowMs: 3_600_000 })
    outbox.spend({ ...change(1, 6, 1001), limit: hourly })
    const reports = outbox.drain(10, at(1001))
    expect(reports.map(({ limit, spent }) => [limit.windowMs, spent[0]?.amount])).toEqual([
      [10_000, 5],
      [3_600_000, 6],
    ])
    outbox.spend(change(1, 5, 1000))
    const larger = defineLimit({ algorithm: 'fixed-window', max: 200, windowMs: 10_000 })
    outbox.spend({ ...change(1, 6, 1001), limit: larger })
    expect(outbox.drain(10, at(1001)).map(({ limit, spent }) => [limit.max, spent.length])).toEqual(
      [[200, 1]],
    )
  })
})

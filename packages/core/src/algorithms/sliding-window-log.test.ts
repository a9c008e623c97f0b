import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { LOG_INSTANTS_SHOWN, shortenLog } from './sliding-window-log.js'

const sum = (log: readonly number[]) =>
  log.reduce((units, number, i) => (i % 2 === 1 ? units + number : units), 0)

describe('a shortened log', () => {
  test('equals the log itself up to 64 instants', () => {
    const log = Array.from({ length: LOG_INSTANTS_SHOWN }, (_, n) => [n, 2]).flat()
    expect(shortenLog(log)).toBe(log)
    expect(shortenLog([])).toEqual([])
  })

  test('merges the oldest instants of a longer log', () => {
    const log = Array.from({ length: LOG_INSTANTS_SHOWN + 2 }, (_, n) => [n, n + 1]).flat()
    expect(shortenLog(log).slice(0, 4)).toEqual([0, 1 + 2 + 3, 3, 4])
  })

  test('keeps all units, the oldest and the newest instant, and stays short', () => {
    const pairs = fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 300 })
    fc.assert(
      fc.property(pairs, (units) => {
        const log = units.flatMap((each, n) => [1000 + n, each])
        const short = shortenLog(log)
        expect(short.length).toBeLessThanOrEqual(2 * LOG_INSTANTS_SHOWN)
        expect([sum(short), short[0], short.at(-2)]).toEqual([sum(log), log[0], log.at(-2)])
        expect(shortenLog(short)).toBe(short)
      }),
    )
  })
})

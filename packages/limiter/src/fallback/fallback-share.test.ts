import { compileRules, type Limit, type LimitSpec, parseRules, sipKey } from '@sluice/core'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { FallbackShares } from './fallback-share.js'

function compiled(limit: object | string) {
  const { rules } = parseRules([{ id: 'r', by: ['user'], limits: [limit] }])
  if (rules === undefined) throw new Error('bad rule')
  const snapshot = compileRules(rules, { secret: sipKey(new Uint8Array(16)) })
  const [only] = snapshot.rules[0]?.limits ?? []
  if (only === undefined) throw new Error('no limit')
  return only
}

const shareOf = (limit: object | string, factor: number, nodes: number, canWait = true): Limit =>
  new FallbackShares().get(compiled(limit), factor, nodes, canWait)

describe('FallbackShares', () => {
  test.each([
    ['5/hour', 1, 20, 1],
    ['5/hour', 1, 2, 3],
    ['30/hour', 0.1, 1, 3],
    ['10/hour', 0.5, 3, 2],
    ['10/hour', 2, 1, 20],
    ['10/hour', 10, 3, 34],
    ['1000/hour', 1, 1, 1000],
    ['0/hour', 1, 7, 0],
  ])('a share of %s with a factor of %d on %d nodes is %d', (limit, factor, nodes, max) => {
    expect(shareOf(limit, factor, nodes)).toMatchObject({ max, capacity: max })
  })

  test('a share is of burst and queue alike, and keeps algorithm, window and waits', () => {
    const bucket = { max: 100, window: '1m', burst: 31, wait: '2s' }
    expect(shareOf(bucket, 1, 10)).toMatchObject({
      algorithm: 'token-bucket',
      max: 10,
      capacity: 4,
      windowMs: 60_000,
      maxWaitUs: 2_000_000,
    })
    const leaky = { algorithm: 'leaky-bucket', max: 100, window: '1s', queue: 5, maxWait: '3s' }
    expect(shareOf(leaky, 1, 4)).toMatchObject({ max: 25, capacity: 2, maxWaitUs: 3_000_000 })
    expect(shareOf({ algorithm: 'gcra', max: 100, window: '1s' }, 1, 4)).toMatchObject({
      max: 25,
      capacity: 1,
    })
  })

  test('a share for calls that cannot be delayed lends as much, and delays no call', () => {
    const bucket = { max: 100, window: '1m', wait: '2s' }
    const { borrowable: lent } = shareOf(bucket, 1, 10)
    expect(lent).toBeGreaterThan(0)
    expect(shareOf(bucket, 1, 10, false)).toMatchObject({ maxWaitUs: 0, borrowable: lent })
  })

  test('a share charges no refusal', () => {
    expect(shareOf({ max: 9, window: '1s', onRefusal: 'charge' }, 1, 2).onRefusal).toBe('none')
  })

  test('a share that cannot be counted exactly is a fixed window of as much', () => {
    const fine = { max: 366 * 86_400_000, window: '366d', burst: 10_000_000 }
    expect(shareOf(fine, 1, 1).algorithm).toBe('token-bucket')
    expect(shareOf(fine, 1, 7)).toMatchObject({
      algorithm: 'fixed-window',
      max: Math.ceil(fine.max / 7),
      windowMs: 366 * 86_400_000,
    })
  })

  test('a share of a limit too large for its factor is a window of the most that can be counted', () => {
    expect(shareOf({ max: 999_999_999_999_999, window: '366d', burst: 1 }, 10, 1)).toMatchObject({
      algorithm: 'fixed-window',
      max: 999_999_999_999_999,
    })
    expect(
      shareOf({ algorithm: 'sliding-window-log', max: 9000, window: '1h' }, 3, 1),
    ).toMatchObject({ algorithm: 'fixed-window', max: 27_000 })
  })

  test('a share of a calendar window has the same windows, however large it is', () => {
    const monthly = { algorithm: 'fixed-window', window: 'month', zone: 'Europe/Berlin' }
    const calendar = { unit: 'month', zone: 'Europe/Berlin' }
    expect(shareOf({ ...monthly, max: 100 }, 1, 4)).toMatchObject({ max: 25, calendar })
    const most = 999_999_999_999_999
    expect(shareOf({ ...monthly, max: most }, 10, 1)).toMatchObject({ max: most, calendar })
  })

  test('a share is made once for each size of the fleet', () => {
    const shares = new FallbackShares()
    const of = compiled('100/second')
    const first = shares.get(of, 1, 3, true)
    expect(shares.get(of, 1, 3, true)).toBe(first)
    expect(shares.get(of, 1, 4, true).max).toBe(25)
  })

  test('a share of any limit is exact, at least 1, and n of them at most factor * max + n - 1', () => {
    const spec = fc.record({
      algorithm: fc.constantFrom<LimitSpec['algorithm'][]>('token-bucket', 'fixed-window', 'gcra'),
      max: fc.integer({ min: 1, max: 1_000_000 }),
      window: fc.constantFrom('250ms', '1s', '7s', '1h', '30d'),
    })
    const factor = fc.integer({ min: 1, max: 1000 }).map((percent) => percent / 100)
    fc.assert(
      fc.property(spec, factor, fc.integer({ min: 1, max: 50 }), (limit, by, nodes) => {
        // Some are too fine to be a limit at all.
        fc.pre(parseRules([{ id: 'r', limits: [limit] }]).rules !== undefined)
        const { max } = shareOf(limit, by, nodes)
        expect(max).toBeGreaterThanOrEqual(1)
        const whole = Math.round(by * 100) * limit.max
        // In hundredths, so that the test itself does not round.
        expect(100 * max * nodes).toBeGreaterThanOrEqual(whole)
        if (whole >= 100) expect(100 * (max * nodes - nodes)).toBeLessThan(whole)
      }),
      { numRuns: 300 },
    )
  })
})

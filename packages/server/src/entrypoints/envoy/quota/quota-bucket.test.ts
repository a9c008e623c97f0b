/** What is known of one bucket, at times that each test chooses. */
import { describe, expect, test } from 'vitest'
import { QuotaBucket } from './quota-bucket.js'
import { Draw } from './quota-draw.js'

const ID = [{ key: 'user', value: 'u1' }]
const BOUNDS = { least: 10, most: 100, perMs: 0 }
const SECOND = 1000
const drawOf = (calls: number, endsMs = Infinity) => new Draw(calls, endsMs, [])
const leftIn = (draws: readonly Draw[]) => draws.map(({ left }) => left)

/** A bucket with one lease, assigned at 0. */
function leased(calls: number, endsMs?: number): QuotaBucket {
  const bucket = new QuotaBucket(ID, 0)
  bucket.report(1, 0, 0, true)
  bucket.add(drawOf(calls, endsMs), 0)
  expect(bucket.assignDrawn(0)).toEqual({ kind: 'lease', calls })
  return bucket
}

/** The same with a second lease, after a report of so many calls. */
function replaced(atMs: number, spent: number): QuotaBucket {
  const bucket = leased(10)
  bucket.report(spent, 0, atMs, false)
  bucket.add(drawOf(20), atMs)
  expect(bucket.assignDrawn(atMs)).toEqual({ kind: 'lease', calls: 20 })
  return bucket
}

describe('what was drawn', () => {
  test('is held until a report says that it was spent, and what was spent beyond is to be paid', () => {
    const bucket = leased(10)
    expect(bucket.takeUnpaid()).toBe(1)
    expect(bucket.report(7, 0, SECOND, false)).toEqual({ spent: 7, beyond: 0 })
    expect(bucket.held).toBe(3)
    expect(bucket.report(7, 0, 2 * SECOND, false)).toEqual({ spent: 3, beyond: 4 })
    expect(bucket.held).toBe(0)
  })

  test('is paid by one charge at a time', () => {
    const bucket = new QuotaBucket(ID, 0)
    bucket.report(2, 0, 0, true)
    expect(bucket.takeUnpaid()).toBe(2)
    bucket.report(3, 0, SECOND, false)
    bucket.report(4, 0, 2 * SECOND, false)
    expect(bucket.takeUnpaid()).toBe(0)
    bucket.isCharging = false
    expect(bucket.takeUnpaid()).toBe(7)
  })

  test('goes back from a lease that was replaced, with a report made after that', () => {
    const bucket = replaced(5 * SECOND, 6)
    // On its way before the second lease arrived: the proxy may still spend the first.
    bucket.report(0, 0, 5 * SECOND + 999, false)
    expect(bucket.takeReturnable()).toEqual([])
    bucket.report(1, 0, 6 * SECOND, false)
    expect(leftIn(bucket.takeReturnable())).toEqual([3])
    expect(bucket.held).toBe(20)
  })

  test('of the lease that is assigned now never goes back', () => {
    const bucket = replaced(5 * SECOND, 6)
    bucket.report(0, 0, 60 * SECOND, false)
    bucket.takeReturnable()
    expect(bucket.held).toBe(20)
  })

  test('goes back when its proxy has refused calls since the last report: it holds nothing', () => {
    const bucket = leased(10)
    bucket.report(5, 0, SECOND, false)
    bucket.report(1, 3, 2 * SECOND, false)
    expect(leftIn(bucket.takeReturnable())).toEqual([4])
    expect(bucket.needsDraw(2 * SECOND)).toBe(true)
  })

  test('stays when calls may have been refused before the lease was there', () => {
    const bucket = new QuotaBucket(ID, 0)
    bucket.report(0, 1, 0, true)
    bucket.add(drawOf(10), 0)
    bucket.assignDrawn(0)
    bucket.report(0, 5, 999, false)
    expect(bucket.takeReturnable()).toEqual([])
    expect(bucket.held).toBe(10)
  })

  test('goes back whole when the bucket is closed', () => {
    const bucket = replaced(5 * SECOND, 6)
    expect(leftIn(bucket.close())).toEqual([4, 20])
    expect(bucket.held).toBe(0)
  })
})

describe('a draw that is smaller than what the proxy has', () => {
  test('is kept until it is more', () => {
    const bucket = leased(10)
    bucket.add(drawOf(4), 0)
    expect(bucket.assignDrawn(0)).toBeUndefined()
    bucket.report(8, 0, SECOND, false)
    expect(bucket.assignDrawn(SECOND)).toEqual({ kind: 'lease', calls: 4 })
  })

  test('goes back if its window ends meanwhile', () => {
    const bucket = leased(10)
    const early = drawOf(4, SECOND)
    bucket.add(early, 0)
    expect(bucket.add(drawOf(5), SECOND)).toEqual([early])
    expect(bucket.held).toBe(15)
  })
})

describe('a draw is needed', () => {
  test('when there is no assignment, and not while one is under way or the store has nothing', () => {
    const bucket = new QuotaBucket(ID, 0)
    expect(bucket.needsDraw(0)).toBe(true)
    bucket.isDrawing = true
    expect(bucket.needsDraw(0)).toBe(false)
    bucket.isDrawing = false
    bucket.refuse(1500, 0)
    expect(bucket.needsDraw(1499)).toBe(false)
    expect(bucket.needsDraw(1500)).toBe(true)
  })

  test('at the end of the window that the lease was drawn from', () => {
    const bucket = leased(10, 5 * SECOND)
    expect(bucket.needsDraw(5 * SECOND - 1)).toBe(false)
    expect(bucket.needsDraw(5 * SECOND)).toBe(true)
  })

  test('when the lease will not last at the last rate, and not for a rate that is long ago', () => {
    const bucket = leased(1000)
    bucket.report(500, 0, 5 * SECOND, false)
    expect(bucket.needsDraw(9 * SECOND)).toBe(false)
    expect(bucket.needsDraw(9.5 * SECOND)).toBe(true)
    expect(bucket.needsDraw(60 * SECOND)).toBe(false)
  })

  test('for the calls until the next report and a little longer, within the bounds', () => {
    const bucket = leased(10)
    bucket.report(50, 0, 5 * SECOND, false)
    // Ten calls a second for 6.25 seconds.
    expect(bucket.wanted(BOUNDS, 5 * SECOND)).toBe(63)
    expect(bucket.wanted({ ...BOUNDS, most: 40 }, 5 * SECOND)).toBe(40)
    expect(bucket.wanted({ ...BOUNDS, least: 80 }, 5 * SECOND)).toBe(80)
  })

  test('before the rate is known, for the part of the proxy', () => {
    const bucket = new QuotaBucket(ID, 0)
    bucket.report(1, 0, 0, true)
    expect(bucket.wanted({ ...BOUNDS, perMs: 0.02 }, 0)).toBe(40)
  })
})

describe('an assignment', () => {
  test('is renewed when it ends in less than three seconds', () => {
    const bucket = leased(10)
    expect(bucket.renew(2 * SECOND)).toBeUndefined()
    expect(bucket.renew(2 * SECOND + 1)).toEqual({ kind: 'lease', calls: 10 })
    expect(bucket.renew(4 * SECOND)).toBeUndefined()
  })

  test('of all calls is no reason to keep a lease', () => {
    const bucket = leased(10)
    bucket.assign({ kind: 'allow' }, SECOND)
    bucket.report(0, 0, 3 * SECOND, false)
    expect(leftIn(bucket.takeReturnable())).toEqual([10])
  })
})

test('a bucket is idle with a report of no call 15 seconds after the last, or long without one', () => {
  const bucket = leased(10)
  bucket.report(0, 0, 10 * SECOND, false)
  expect(bucket.isIdle(10 * SECOND)).toBe(false)
  // Between reports nothing is known.
  expect(bucket.isIdle(20 * SECOND)).toBe(false)
  bucket.report(0, 0, 15 * SECOND, false)
  expect(bucket.isIdle(15 * SECOND)).toBe(true)
  bucket.report(0, 1, 16 * SECOND, false)
  expect(bucket.isIdle(16 * SECOND)).toBe(false)
  expect(bucket.isIdle(16 * SECOND + 600 * SECOND)).toBe(true)
})

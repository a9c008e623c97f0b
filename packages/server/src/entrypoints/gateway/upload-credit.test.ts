import { describe, expect, test } from 'vitest'
import { UploadCredit } from './upload-credit.js'

const STALL_MS = 60_000

/** When a client of so many bytes a second runs out of credit; undefined: not within an hour. */
function cutAfterMs(bytesPerSecond: number): number | undefined {
  const credit = new UploadCredit(STALL_MS, 0)
  for (let nowMs = 0; nowMs < 3_600_000; nowMs += 100) {
    if (credit.leftMs(nowMs) <= 0) return nowMs
    credit.add(bytesPerSecond / 10, nowMs)
  }
  return undefined
}

describe('the credit of an upload', () => {
  test('runs out after five seconds without a byte', () => {
    const credit = new UploadCredit(STALL_MS, 1000)
    expect([credit.leftMs(1000), credit.leftMs(5999), credit.leftMs(6000)]).toEqual([5000, 1, 0])
  })

  test('lasts for a client that sends 240 bytes a second, and not for one that sends 230', () => {
    expect(cutAfterMs(240)).toBeUndefined()
    expect(cutAfterMs(230)).toBeGreaterThan(60_000)
    expect(cutAfterMs(24)).toBeLessThan(6000)
  })

  test('lets a fast client stall for the maximum time, and no longer', () => {
    const credit = new UploadCredit(STALL_MS, 0)
    credit.add(100_000_000, 10)
    expect([credit.leftMs(10), credit.leftMs(60_009), credit.leftMs(60_010)]).toEqual([
      60_000, 1, 0,
    ])
  })

  test('never exceeds the maximum stall, also at the beginning', () => {
    expect(new UploadCredit(100, 0).leftMs(0)).toBe(100)
  })

  test('is not used up while the gateway does not read', () => {
    const credit = new UploadCredit(STALL_MS, 0)
    credit.pause(2000)
    expect([credit.isPaused(), credit.leftMs(3_600_000)]).toEqual([true, 3000])
    credit.resume(3_600_000)
    expect([credit.isPaused(), credit.leftMs(3_600_500)]).toEqual([false, 2500])
    credit.resume(3_600_900)
    expect(credit.leftMs(3_601_000)).toBe(2000)
  })

  test('grows by bytes that arrive in a pause that came too late to stop them', () => {
    const credit = new UploadCredit(STALL_MS, 0)
    credit.pause(1000)
    credit.add(240, 9000)
    expect(credit.leftMs(20_000)).toBe(5000)
  })
})

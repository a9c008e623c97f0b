import fc from 'fast-check'
import { expect, test } from 'vitest'
import { INTERVALS, pause, retryMs } from './intervals.js'

test('retries back off with jitter of half the time, and never exceed the longest pause', () => {
  fc.assert(
    fc.property(fc.nat(2000), (failures) => {
      const longest = Math.min(5000, 100 * 2 ** failures)
      const ms = retryMs(INTERVALS, failures)
      expect(ms).toBeGreaterThanOrEqual(longest / 2)
      expect(ms).toBeLessThanOrEqual(longest)
    }),
  )
})

test('a pause ends when it is aborted, also before it starts', async () => {
  const closing = new AbortController()
  const paused = pause(1_000_000, closing.signal)
  closing.abort()
  await paused
  await pause(1_000_000, closing.signal)
})

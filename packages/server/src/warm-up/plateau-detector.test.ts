import { expect, test } from 'vitest'
import { PlateauDetector } from './plateau-detector.js'

function roundsUntilSettled(times: readonly number[]): number | undefined {
  const settling = new PlateauDetector()
  const index = times.findIndex((tookMs) => {
    settling.record(tookMs)
    return settling.isSettled
  })
  return index === -1 ? undefined : index + 1
}

test('a process that gets faster from round to round has not settled', () => {
  expect(roundsUntilSettled([90, 70, 50, 40, 30, 25, 20, 15, 12, 10])).toBeUndefined()
})

test('a process has settled after five rounds without a faster one', () => {
  expect(roundsUntilSettled([90, 40, 20, 21, 19, 20, 22, 19, 18])).toBe(8)
})

test('a slow round among fast ones does not restart the count', () => {
  expect(roundsUntilSettled([20, 20, 90, 20, 20, 20])).toBe(6)
})

import { memoryStore, type Remote } from '@sluice/limiter'
import { expect, test } from 'vitest'
import { responseClock } from './response-clock.js'

const HOUR_MS = 3_600_000
const WALL_MS = 1_767_225_600_000
const wall = { now: () => WALL_MS }
const remoteAt = (storeUs: number) => ({ remote: { time: () => storeUs } as Remote })

test('responses use the time of the store, whatever the clock of the node', () => {
  const storeUs = (WALL_MS - HOUR_MS) * 1000 + 999
  expect(responseClock(remoteAt(storeUs), wall).now()).toBe(WALL_MS - HOUR_MS)
})

test('responses use the clock of the node if the store does not know its time', () => {
  expect(responseClock(remoteAt(Number.NaN), wall).now()).toBe(WALL_MS)
  expect(responseClock(remoteAt(Number.POSITIVE_INFINITY), wall).now()).toBe(WALL_MS)
})

test('a store in this process has the clock of the node', () => {
  expect(responseClock(memoryStore(), wall).now()).toBe(WALL_MS)
})

import { expect, test } from 'vitest'
import { healthOf, type RedisStats } from './redis-stats.js'

const REMOTE = { state: 'ready', nodes: [], fleet: { size: 2, ageMs: 10 } } as const
const STATS: RedisStats = {
  ...REMOTE,
  memory: { usedBytes: 5, maxBytes: 9, keys: 3, evictedKeys: 1, isAppendOnly: true },
}

test('the health of a Redis store has the words of the store contract', () => {
  expect(healthOf(STATS, 'plain')).toEqual({
    remote: REMOTE,
    memory: { usedBytes: 5, maxBytes: 9, counters: 3, evicted: 1, evictedBlocked: 1 },
    isPersistent: true,
  })
})

test('the number of counters is unknown in the packed layout, and everything before a measurement', () => {
  expect(healthOf(STATS, 'packed').memory?.counters).toBeUndefined()
  expect(healthOf({ ...REMOTE, memory: undefined }, 'plain')).toEqual({
    remote: REMOTE,
    memory: undefined,
    isPersistent: undefined,
  })
})

import { memoryStore } from '@sluice/limiter'
import type { RedisStats } from '@sluice/limiter/redis'
import { describe, expect, test } from 'vitest'
import { redisSnapshot, storeSnapshotReader } from './store-snapshot.js'

const NODE = {
  address: '10.0.0.5:6379',
  isAnswering: true,
  isBreakerOpen: false,
  breakerOpened: 0,
  clock: { offsetSeconds: -0.0123456, errorSeconds: 0.001 },
  inFlight: 0,
  queuedTakes: 0,
}
const STATS: RedisStats = {
  state: 'ready',
  nodes: [NODE],
  fleet: { size: 1, ageMs: 0 },
  memory: { usedBytes: 500, maxBytes: 1000, keys: 7, evictedKeys: 2, isAppendOnly: false },
}
const TOLD = { name: 'redis://10.0.0.5:6379', describe: () => 'redis: answering' }

describe('what is told of a store', () => {
  test('in memory: its counters and bytes, and that it is well', () => {
    const store = memoryStore()
    const snapshot = storeSnapshotReader(
      { store, name: 'memory', describe: () => 'memory' },
      'plain',
    )()
    expect(snapshot).toEqual({
      name: 'memory',
      state: 'memory',
      isWell: true,
      counters: 0,
      memoryBytes: store.stats().bytes,
      memoryMaxBytes: null,
      evicted: 0,
      nodes: [],
    })
  })

  test('in Redis: its memory and the clocks of its nodes', () => {
    expect(redisSnapshot(TOLD, STATS, 'plain')).toEqual({
      name: TOLD.name,
      state: 'redis: answering',
      isWell: true,
      counters: 7,
      memoryBytes: 500,
      memoryMaxBytes: 1000,
      evicted: 2,
      nodes: [
        {
          address: NODE.address,
          isAnswering: true,
          isBreakerOpen: false,
          clockOffsetMs: -12.346,
        },
      ],
    })
  })

  test('in Redis: nothing that nobody knows', () => {
    const packed = redisSnapshot(TOLD, STATS, 'packed')
    expect(packed.counters).toBeNull()
    const nodes = [{ ...NODE, clock: undefined }]
    expect(redisSnapshot(TOLD, { ...STATS, nodes, memory: undefined }, 'plain')).toMatchObject({
      counters: null,
      memoryBytes: null,
      memoryMaxBytes: null,
      evicted: 0,
      nodes: [{ clockOffsetMs: null }],
    })
    const unbound = { usedBytes: 1, maxBytes: 0, keys: 0, evictedKeys: 0, isAppendOnly: false }
    expect(redisSnapshot(TOLD, { ...STATS, memory: unbound }, 'plain').memoryMaxBytes).toBeNull()
  })

  test.each([
    ['it has not started', { state: 'starting' as const }],
    ['no node is known', { nodes: [] }],
    ['one of its nodes does not answer', { nodes: [NODE, { ...NODE, isAnswering: false }] }],
    ['one of its nodes is given up for now', { nodes: [NODE, { ...NODE, isBreakerOpen: true }] }],
  ])('in Redis: that it is not well where %s', (_, more) => {
    expect(redisSnapshot(TOLD, { ...STATS, ...more }, 'plain').isWell).toBe(false)
  })
})

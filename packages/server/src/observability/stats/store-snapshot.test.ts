import { memoryStore, type StoreHealth } from '@sluice/limiter'
import { describe, expect, test } from 'vitest'
import { storeSnapshot } from './store-snapshot.js'

const NODE = {
  address: '10.0.0.5:6379',
  isAnswering: true,
  isBreakerOpen: false,
  breakerOpened: 0,
  clock: { offsetSeconds: -0.0123456, errorSeconds: 0.001 },
  inFlight: 0,
  queuedTakes: 0,
}
const REMOTE = { state: 'ready', nodes: [NODE], fleet: { size: 1, ageMs: 0 } } as const
const MEMORY = { usedBytes: 500, maxBytes: 1000, counters: 7, evicted: 2, evictedBlocked: 2 }
const NAME = 'redis://10.0.0.5:6379'

function snapshotOf(health: Partial<StoreHealth>) {
  const store = {
    health: () => ({ remote: REMOTE, memory: MEMORY, isPersistent: false, ...health }),
  }
  return storeSnapshot({ store, name: NAME, describe: () => 'redis: answering' })
}

describe('the snapshot of a store', () => {
  test('in memory has its counters and bytes, and is well', () => {
    const store = memoryStore()
    const snapshot = storeSnapshot({ store, name: 'memory', describe: () => 'memory' })
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

  test('in Redis has its memory and the clocks of its nodes', () => {
    expect(snapshotOf({})).toEqual({
      name: NAME,
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

  test('in Redis has null for everything that is not measured', () => {
    expect(snapshotOf({ memory: { ...MEMORY, counters: undefined } }).counters).toBeNull()
    const nodes = [{ ...NODE, clock: undefined }]
    expect(snapshotOf({ remote: { ...REMOTE, nodes }, memory: undefined })).toMatchObject({
      counters: null,
      memoryBytes: null,
      memoryMaxBytes: null,
      evicted: 0,
      nodes: [{ clockOffsetMs: null }],
    })
    expect(snapshotOf({ memory: { ...MEMORY, maxBytes: 0 } }).memoryMaxBytes).toBeNull()
  })

  test.each([
    ['it has not started', { state: 'starting' as const }],
    ['no node is known', { nodes: [] }],
    ['one of its nodes does not answer', { nodes: [NODE, { ...NODE, isAnswering: false }] }],
    ['the breaker of a node is open', { nodes: [NODE, { ...NODE, isBreakerOpen: true }] }],
  ])('in Redis is not well if %s', (_, more) => {
    expect(snapshotOf({ remote: { ...REMOTE, ...more } }).isWell).toBe(false)
  })
})

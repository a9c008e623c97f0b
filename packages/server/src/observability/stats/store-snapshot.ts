/** What a node tells of its store. */
import type { MemoryStore, Store } from '@sluice/limiter'
import type { RedisNodeStats, RedisStats, RedisStore } from '@sluice/limiter/redis'
import { STORES_MAX } from '../../counter-store/store-metrics.js'
import type { StoreSnapshot } from './node-snapshot.js'

export interface DescribedStore {
  readonly store: Store
  /** Where it is, for people. */
  readonly name: string
  /** How it is, for people. */
  describe(): string
}

/** `layout`: of Redis; in the packed one a key holds many counters, and nobody counts those. */
export function storeSnapshotReader(
  opened: DescribedStore,
  layout: 'plain' | 'packed',
): () => StoreSnapshot {
  const { store } = opened
  if (isRedis(store)) return () => redisSnapshot(opened, store.stats(), layout)
  return () => memorySnapshot(opened, isMemory(store) ? store.stats() : undefined)
}

export function isRedis(store: Store): store is RedisStore {
  return 'board' in store
}

function isMemory(store: Store): store is MemoryStore {
  return 'stats' in store && 'sync' in store
}

type StoreDescription = Pick<DescribedStore, 'name' | 'describe'>

function memorySnapshot(
  description: StoreDescription,
  stats: ReturnType<MemoryStore['stats']> | undefined,
): StoreSnapshot {
  return {
    name: description.name,
    state: description.describe(),
    isWell: true,
    counters: stats?.counters ?? null,
    memoryBytes: stats?.bytes ?? null,
    memoryMaxBytes: null,
    evicted: stats?.evicted ?? 0,
    nodes: [],
  }
}

export function redisSnapshot(
  description: StoreDescription,
  stats: RedisStats,
  layout: 'plain' | 'packed',
): StoreSnapshot {
  const { state, memory } = stats
  const nodes = stats.nodes.slice(0, STORES_MAX)
  const isAnswering = nodes.length > 0 && nodes.every((node) => node.isAnswering)
  return {
    name: description.name,
    state: description.describe(),
    isWell: state === 'ready' && isAnswering && !nodes.some((node) => node.isBreakerOpen),
    counters: layout === 'packed' ? null : (memory?.keys ?? null),
    memoryBytes: memory?.usedBytes ?? null,
    memoryMaxBytes: memory === undefined || memory.maxBytes === 0 ? null : memory.maxBytes,
    evicted: memory?.evictedKeys ?? 0,
    nodes: nodes.map(storeNode),
  }
}

function storeNode(node: RedisNodeStats): StoreSnapshot['nodes'][number] {
  const { address, isAnswering, isBreakerOpen, clock } = node
  const clockOffsetMs = clock === undefined ? null : Math.round(clock.offsetSeconds * 1e6) / 1000
  return { address, isAnswering, isBreakerOpen, clockOffsetMs }
}

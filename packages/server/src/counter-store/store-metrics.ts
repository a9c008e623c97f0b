/** What a store tells of itself when the metrics are read. */
import type { MemoryStore } from '@sluice/limiter'
import type { RedisNodeStats, RedisStats } from '@sluice/limiter/redis'
import type { Registry } from '../observability/metrics/registry.js'

/** Nodes of a topology that are told apart; a Cluster has at most about a thousand primaries. */
export const STORES_MAX = 1000

const COUNTERS = 'Counters in the store.'
const MEMORY = 'Bytes that the store takes.'
const EVICTED =
  'Keys that Redis evicted, or counters of blocked callers that memory had no room for.'

const UP =
  'Whether a node of the store is reached and asked: 0 without a connection, while its breaker is ' +
  'open, and while it refuses this node. Always 1 for counters in this process.'
/** The label of counters in this process: a node that counts alone shows among those that share. */
const IN_PROCESS = 'memory'

export function registerMemoryMetrics(registry: Registry, store: MemoryStore): void {
  registry.gauge('sluice_store_up', UP, () => [[[IN_PROCESS], 1]], ['store'])
  registry.gauge('sluice_counters', COUNTERS, () => store.stats().counters)
  registry.gauge('sluice_store_memory_bytes', MEMORY, () => store.stats().bytes)
  registry.total('sluice_store_evicted_total', EVICTED, () => store.stats().evictedBlocked)
}

export interface RedisMetricsSource {
  readonly stats: () => RedisStats
  readonly layout: 'plain' | 'packed'
  /** Where it is, without its password: the label of a store of which no node is known. */
  readonly name: string
}

type Samples = readonly (readonly [values: readonly string[], value: number])[]

export function registerRedisMetrics(
  registry: Registry,
  { stats, layout, name }: RedisMetricsSource,
): void {
  const memory = (read: (memory: NonNullable<RedisStats['memory']>) => number): Samples => {
    const known = stats().memory
    return known === undefined ? [] : [[[], read(known)]]
  }
  const each = (read: (node: RedisNodeStats) => number | undefined): Samples =>
    stats()
      .nodes.slice(0, STORES_MAX)
      .flatMap((node) => {
        const value = read(node)
        return value === undefined ? [] : [[[node.address], value] as const]
      })
  // In the packed layout a key holds many counters, and nobody counts those.
  if (layout === 'plain') {
    registry.gauge('sluice_counters', COUNTERS, () => memory(({ keys }) => keys))
  }
  registry.gauge('sluice_store_memory_bytes', MEMORY, () => memory(({ usedBytes }) => usedBytes))
  registry.gauge(
    'sluice_store_memory_max_bytes',
    'Bytes that the store may take; not told where a part of it has no bound.',
    () => (stats().memory?.maxBytes === 0 ? [] : memory(({ maxBytes }) => maxBytes)),
  )
  registry.total('sluice_store_evicted_total', EVICTED, () =>
    memory(({ evictedKeys }) => evictedKeys),
  )
  registry.gauge('sluice_fleet_size', 'Live nodes, this one among them, as last seen.', () => {
    return stats().fleet.size
  })
  registry.gauge(
    'sluice_store_up',
    UP,
    () => {
      const { state, nodes } = stats()
      const isAsked = state === 'ready'
      return nodes.length === 0
        ? [[[name], 0]]
        : each(({ isAnswering }) => Number(isAsked && isAnswering))
    },
    ['store'],
  )
  registry.gauge(
    'sluice_breaker_open',
    'Whether a connected node of the store did not answer in time and is not asked for now; ' +
      'stays 0 without a connection: see sluice_store_up.',
    () => each(({ isBreakerOpen }) => Number(isBreakerOpen)),
    ['store'],
  )
  registry.gauge(
    'sluice_store_queue_takes',
    'Takes that wait to be sent to a node of the store.',
    () => each(({ queuedTakes }) => queuedTakes),
    ['store'],
  )
  registry.gauge(
    'sluice_clock_offset_seconds',
    'How far the clock of a node of the store is ahead of ours.',
    () => each(({ clock }) => clock?.offsetSeconds),
    ['store'],
  )
}

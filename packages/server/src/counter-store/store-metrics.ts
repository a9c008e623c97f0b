/** Metrics that are read from the health of the counter store. */
import type { StoreHealth, StoreMemory, StoreNodeHealth } from '@sluice/limiter'
import type { Registry } from '../observability/metrics/registry.js'

/** The most store nodes with series of their own; a Cluster has at most about 1,000 primaries. */
export const STORES_MAX = 1000

const COUNTERS = 'Counters in the store.'
const MEMORY = 'Memory used by the store, in bytes.'
const EVICTED =
  'Keys evicted by Redis, or counters of blocked callers dropped from a full memory store.'
const UP =
  'Whether a node of the store is connected and used: 0 without a connection, while its breaker is ' +
  'open, and while it refuses this node. Always 1 for counters in this process.'

export interface StoreMetricsSource {
  readonly health: () => StoreHealth
  /** The label of a store of which no node is known: its location, without a password. */
  readonly name: string
  /**
   * How the counters of several workers become those of this node: `max` where they are the same
   * ones, `sum` where each worker holds a part.
   *
   * @default 'max'
   */
  readonly merge?: 'max' | 'sum' | undefined
}

type Samples = readonly (readonly [values: readonly string[], value: number])[]

export function registerStoreMetrics(registry: Registry, source: StoreMetricsSource): void {
  const { health, name, merge = 'max' } = source
  const memory = (read: (memory: StoreMemory) => number | undefined): Samples => {
    const measured = health().memory
    const value = measured && read(measured)
    return value === undefined ? [] : [[[], value]]
  }
  // Not measured by Redis in its packed layout, where one key holds many counters.
  registry.gauge('sluice_counters', COUNTERS, merge, () => memory(({ counters }) => counters))
  registry.gauge('sluice_store_memory_bytes', MEMORY, merge, () =>
    memory(({ usedBytes }) => usedBytes),
  )
  registry.total(
    'sluice_store_evicted_total',
    EVICTED,
    () => memory(({ evictedBlocked }) => evictedBlocked),
    { merge },
  )
  registry.gauge('sluice_store_up', UP, 'min', () => upOf(health(), name), ['store'])
  if (health().remote !== undefined) registerRemoteMetrics(registry, health)
}

function upOf({ remote }: StoreHealth, name: string): Samples {
  if (remote === undefined) return [[[name], 1]]
  if (remote.nodes.length === 0) return [[[name], 0]]
  const isUsed = remote.state === 'ready'
  return eachNode(remote.nodes, ({ isAnswering }) => Number(isUsed && isAnswering))
}

function registerRemoteMetrics(registry: Registry, health: () => StoreHealth): void {
  const each = (read: (node: StoreNodeHealth) => number | undefined) =>
    eachNode(health().remote?.nodes ?? [], read)
  registry.gauge(
    'sluice_store_memory_max_bytes',
    'Memory limit of the store, in bytes; absent if one of its nodes has none.',
    'max',
    () => {
      const maxBytes = health().memory?.maxBytes ?? 0
      return maxBytes === 0 ? [] : [[[], maxBytes]]
    },
  )
  registry.gauge('sluice_fleet_size', 'Live limiter nodes, including this one.', 'max', () => {
    return health().remote?.fleet.size ?? []
  })
  registry.gauge(
    'sluice_breaker_open',
    'Whether the circuit breaker of a connected store node is open because it did not answer in ' +
      'time; stays 0 without a connection: see sluice_store_up.',
    'max',
    () => each(({ isBreakerOpen }) => Number(isBreakerOpen)),
    ['store'],
  )
  registry.gauge(
    'sluice_store_queue_takes',
    'Takes waiting to be sent to a node of the store.',
    'sum',
    () => each(({ queuedTakes }) => queuedTakes),
    ['store'],
  )
  registry.gauge(
    'sluice_clock_offset_seconds',
    'How far the clock of a store node is ahead of the clock of this node.',
    'furthest',
    () => each(({ clock }) => clock?.offsetSeconds),
    ['store'],
  )
}

function eachNode(
  nodes: readonly StoreNodeHealth[],
  read: (node: StoreNodeHealth) => number | undefined,
): Samples {
  return nodes.slice(0, STORES_MAX).flatMap((node) => {
    const value = read(node)
    return value === undefined ? [] : [[[node.address], value] as const]
  })
}

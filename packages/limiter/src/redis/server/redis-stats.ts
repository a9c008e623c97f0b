/** The health of a Redis store, for metrics, readiness and the dashboard. */
import { systemClock } from '../../clock.js'
import type { RemoteHealth, StoreHealth, StoreNodeHealth, StoreNodeMemory } from '../../store.js'
import type { Layout } from '../redis-options.js'
import type { NodePipeline } from '../pipeline/node-pipeline.js'

export type RedisNodeStats = StoreNodeHealth
export type RedisNodeMemory = StoreNodeMemory

export interface RedisMemoryStats {
  readonly usedBytes: number
  /** 0: no bound. */
  readonly maxBytes: number
  readonly keys: number
  readonly evictedKeys: number
  /** Whether every primary keeps an append-only file, as durable rules need. */
  readonly isAppendOnly: boolean
}

export interface RedisStats extends RemoteHealth {
  /** Of all primaries together; undefined before the first measurement. */
  readonly memory: RedisMemoryStats | undefined
}

/** Converts it to the store contract. In the packed layout a key holds many counters. */
export function healthOf({ memory, ...remote }: RedisStats, layout: Layout): StoreHealth {
  return {
    remote,
    memory: memory && {
      usedBytes: memory.usedBytes,
      maxBytes: memory.maxBytes,
      counters: layout === 'packed' ? undefined : memory.keys,
      evicted: memory.evictedKeys,
      evictedBlocked: memory.evictedKeys,
    },
    isPersistent: memory?.isAppendOnly,
  }
}

export function nodeStats(
  pipeline: NodePipeline,
  memory: RedisNodeMemory | undefined,
  refusal?: string,
): RedisNodeStats {
  const { breaker, channel, clock } = pipeline
  const ahead = clock.isKnown ? clock.aheadOf(systemClock.now()) : undefined
  return {
    address: channel.address,
    isAnswering: pipeline.isAnswering,
    isBreakerOpen: breaker.isOpen,
    breakerOpened: breaker.opened,
    clock: ahead && {
      offsetSeconds: ahead.offsetUs / 1e6,
      errorSeconds: ahead.errorUs / 1e6,
    },
    inFlight: pipeline.inFlight,
    queuedTakes: pipeline.queuedCost,
    ...(refusal !== undefined && { refusal }),
    ...(memory && { memory: memoryOf(memory) }),
  }
}

function memoryOf({ usedBytes, maxBytes, evictedKeys }: RedisNodeMemory): RedisNodeMemory {
  return { usedBytes, maxBytes, evictedKeys }
}

/** What a Redis store knows of itself, for metrics, readiness and people. */
import { systemClock } from '../../clock.js'
import type { WatchedClock } from './clock-watch.js'
import type { NodePipeline } from '../pipeline/node-pipeline.js'

export interface RedisNodeStats {
  readonly address: string
  readonly isAnswering: boolean
  readonly isBreakerOpen: boolean
  /** How often its breaker has opened. */
  readonly breakerOpened: number
  /** How far its clock is ahead of ours, and how sure that is; undefined: never told. */
  readonly clock: { readonly offsetSeconds: number; readonly errorSeconds: number } | undefined
  /** Batches on the wire, and takes that wait for one. */
  readonly inFlight: number
  readonly queuedTakes: number
  /** What it answers to a user that lacks a right; absent: nothing of the kind. */
  readonly refusal?: string | undefined
  /** Of this node alone; absent before it was asked. */
  readonly memory?: RedisNodeMemory | undefined
}

export interface RedisNodeMemory {
  readonly usedBytes: number
  /** 0: no bound. */
  readonly maxBytes: number
  /** Since the node was started. */
  readonly evictedKeys: number
}

export interface RedisMemoryStats {
  readonly usedBytes: number
  /** 0: no bound. */
  readonly maxBytes: number
  readonly keys: number
  readonly evictedKeys: number
  /** Whether every primary keeps an append-only file, as durable rules need. */
  readonly isAppendOnly: boolean
}

export interface RedisStats {
  /**
   * `starting`: not heard of yet; `refused`: it answers and refuses this node, and is tried again;
   * `unfit`: never to be used. `ready` and the log say why.
   */
  readonly state: 'starting' | 'ready' | 'refused' | 'unfit'
  readonly nodes: readonly RedisNodeStats[]
  readonly fleet: { readonly size: number; readonly ageMs: number }
  /** Of all primaries together; undefined before they were asked. */
  readonly memory: RedisMemoryStats | undefined
}

export function nodeStats(
  pipeline: NodePipeline,
  memory: RedisNodeMemory | undefined,
  refusal?: string,
): RedisNodeStats {
  const { breaker, channel } = pipeline
  const { ahead } = clockAhead(pipeline)
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

/** How far the clock of a node is ahead of the wall clock of this process. */
export function clockAhead({ clock, channel }: NodePipeline): WatchedClock {
  const ahead = clock.isKnown ? clock.aheadOf(systemClock.now()) : undefined
  return { address: channel.address, ahead }
}

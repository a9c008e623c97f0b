/** The part of a node snapshot that describes the counter store. */
import type { Store, StoreNodeHealth } from '@sluice/limiter'
import { STORES_MAX } from '../../counter-store/store-metrics.js'
import type { StoreSnapshot } from './node-snapshot.js'

export interface DescribedStore {
  readonly store: Pick<Store, 'health'>
  /** Its location, without a password. */
  readonly name: string
  /** Its state in words. */
  describe(): string
}

export function storeSnapshot(opened: DescribedStore): StoreSnapshot {
  const { remote, memory } = opened.store.health?.() ?? {}
  const nodes = (remote?.nodes ?? []).slice(0, STORES_MAX)
  const isAnswering =
    nodes.length > 0 && nodes.every((node) => node.isAnswering && !node.isBreakerOpen)
  return {
    name: opened.name,
    state: opened.describe(),
    isWell: remote === undefined || (remote.state === 'ready' && isAnswering),
    counters: memory?.counters ?? null,
    memoryBytes: memory?.usedBytes ?? null,
    memoryMaxBytes: memory === undefined || memory.maxBytes === 0 ? null : memory.maxBytes,
    evicted: memory?.evicted ?? 0,
    nodes: nodes.map(storeNode),
  }
}

function storeNode(node: StoreNodeHealth): StoreSnapshot['nodes'][number] {
  const { address, isAnswering, isBreakerOpen, clock } = node
  const clockOffsetMs = clock === undefined ? null : Math.round(clock.offsetSeconds * 1e6) / 1000
  return { address, isAnswering, isBreakerOpen, clockOffsetMs }
}

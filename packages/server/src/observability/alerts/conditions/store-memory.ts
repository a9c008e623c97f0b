/** Finds stores that are running full, and stores that evict counters. */
import type { StoreMemory as MeasuredMemory, StoreNodeHealth } from '@sluice/limiter'
import { STORES_MAX } from '../../../counter-store/store-metrics.js'
import type { Finding } from '../alert.js'

/** The alert begins above the first share of maxmemory and ends at the second. */
const FULL_SHARE = 0.8
const ROOMY_SHARE = 0.75

/** Judges each primary by itself, because one full primary is enough to lose decisions. */
export class StoreMemory {
  #full: ReadonlySet<string> = new Set()

  evaluate(nodes: readonly StoreNodeHealth[]): readonly Finding[] {
    const findings = nodes.slice(0, STORES_MAX).flatMap((node) => this.evaluateNode(node))
    this.#full = new Set(findings.map(({ subject }) => subject))
    return findings
  }

  private evaluateNode({ address, memory }: StoreNodeHealth): readonly Finding[] {
    if (memory === undefined || memory.maxBytes === 0) return []
    const { usedBytes, maxBytes } = memory
    const share = usedBytes / maxBytes
    if (share <= (this.#full.has(address) ? ROOMY_SHARE : FULL_SHARE)) return []
    const text = (uses: string) =>
      `Redis at ${address} ${uses} ${Math.floor(share * 100)} % of its maxmemory; at 100 % it ` +
      'rejects writes, and rules decide by posture.'
    const details = { store: address, usedBytes, maxBytes }
    return [{ subject: address, summary: text('uses'), past: text('used'), details }]
  }
}

/** Reports evictions at the tick at which their count has grown. */
export class StoreEvictions {
  /** Evicted keys at the last tick, by address. */
  #redis: ReadonlyMap<string, number> = new Map()
  #memory = 0

  /** Ignores what was evicted before the first tick. */
  evaluateRedis(nodes: readonly StoreNodeHealth[]): readonly Finding[] {
    const previous = this.#redis
    const known = nodes.slice(0, STORES_MAX).flatMap(({ address, memory }) => {
      // A node without data keeps its last count, so that its return is no first tick.
      const evicted = memory?.evictedKeys ?? previous.get(address)
      return evicted === undefined ? [] : [{ address, evicted }]
    })
    this.#redis = new Map(known.map(({ address, evicted }) => [address, evicted]))
    return known.flatMap(({ address, evicted }) => {
      const last = previous.get(address) ?? evicted
      // A lower count means that the server was restarted.
      const rise = evicted < last ? evicted : evicted - last
      return rise === 0 ? [] : describeEviction(address, rise)
    })
  }

  evaluateMemory(memory: Pick<MeasuredMemory, 'evictedBlocked' | 'counters'>): readonly Finding[] {
    const { evictedBlocked, counters = 0 } = memory
    const rise = evictedBlocked - this.#memory
    this.#memory = evictedBlocked
    if (rise <= 0) return []
    const summary =
      `The memory store evicted the counters of ${rise} blocked callers to make room; each has ` +
      'its whole budget again.'
    return [{ subject: 'memory', summary, details: { store: 'memory', evicted: rise, counters } }]
  }
}

function describeEviction(store: string, evicted: number): Finding {
  const summary =
    `Redis at ${store} evicted ${evicted} keys since the last check; each may be a counter whose ` +
    'whole budget is available again.'
  return { subject: store, summary, details: { store, evicted } }
}

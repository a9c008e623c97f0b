/** A store that runs full, and one that drops what it should keep. */
import type { StoreMemory as MeasuredMemory, StoreNodeHealth } from '@sluice/limiter'
import type { Finding } from '../alert.js'

/** Above this share of its bound memory is an alert; it is none any more below the other. */
const FULL_SHARE = 0.8
const ROOMY_SHARE = 0.75
/** A Cluster has at most about a thousand primaries. */
const STORES_MAX = 1000

/** Each primary by itself: one that is full is enough. */
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
      'takes no writes, and rules answer by posture.'
    const details = { store: address, usedBytes, maxBytes }
    return [{ subject: address, summary: text('uses'), past: text('used'), details }]
  }
}

/** What is found at the look at which a count has grown, and at no other. */
export class StoreEvictions {
  /** By address, what was evicted at the last look. */
  #redis: ReadonlyMap<string, number> = new Map()
  #memory = 0

  /** What was evicted before the first look is nobody's news. */
  evaluateRedis(nodes: readonly StoreNodeHealth[]): readonly Finding[] {
    const previous = this.#redis
    const known = nodes.slice(0, STORES_MAX).flatMap(({ address, memory }) => {
      // One that is not heard of for a while must not be new again.
      const evicted = memory?.evictedKeys ?? previous.get(address)
      return evicted === undefined ? [] : [{ address, evicted }]
    })
    this.#redis = new Map(known.map(({ address, evicted }) => [address, evicted]))
    return known.flatMap(({ address, evicted }) => {
      const last = previous.get(address) ?? evicted
      // A count that fell is that of a server that was started anew.
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
      `The memory store dropped counters of ${rise} blocked callers to make room; each has its ` +
      'whole budget again.'
    return [{ subject: 'memory', summary, details: { store: 'memory', evicted: rise, counters } }]
  }
}

function describeEviction(store: string, evicted: number): Finding {
  const summary =
    `Redis at ${store} evicted ${evicted} keys since the last look; each may be a counter whose ` +
    'whole budget is handed out again.'
  return { subject: store, summary, details: { store, evicted } }
}

/** Counts the batches that each store node answered, and the slow ones among them. */
import { STORES_MAX } from './store-metrics.js'

/** A batch that takes longer than this share of the deadline is slow, even if it is in time. */
const SLOW_PART_OF_DEADLINE = 0.5

export interface BatchCounts {
  /** Since the start. */
  readonly batches: number
  readonly slow: number
}

export class BatchLatency {
  readonly deadlineMs: number
  readonly slowMs: number
  readonly #stores = new Map<string, { batches: number; slow: number }>()

  constructor(deadlineMs: number) {
    this.deadlineMs = deadlineMs
    this.slowMs = deadlineMs * SLOW_PART_OF_DEADLINE
  }

  record(address: string, seconds: number): void {
    const counts = this.#stores.get(address) ?? this.add(address)
    if (counts === undefined) return
    counts.batches += 1
    if (seconds * 1000 > this.slowMs) counts.slow += 1
  }

  /** By the address of each node of the store. */
  stores(): ReadonlyMap<string, BatchCounts> {
    return this.#stores
  }

  private add(address: string) {
    if (this.#stores.size >= STORES_MAX) return undefined
    const counts = { batches: 0, slow: 0 }
    this.#stores.set(address, counts)
    return counts
  }
}

/** Counts calls that failed because a store node was not connected. */
import { STORES_MAX } from './store-metrics.js'

export class ConnectionFailureCounts {
  readonly #counts = new Map<string, number>()

  /** `address` is empty if no node is known. */
  record(address: string): void {
    const count = this.#counts.get(address)
    if (count === undefined && this.#counts.size >= STORES_MAX) return
    this.#counts.set(address, (count ?? 0) + 1)
  }

  /** By address, since the start. */
  counts(): ReadonlyMap<string, number> {
    return this.#counts
  }
}

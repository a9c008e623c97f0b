/** Counts the calls that met no connection, by node of the store. */
import { STORES_MAX } from './store-metrics.js'

export class ConnectionFailureCounts {
  readonly #counts = new Map<string, number>()

  /** `address`: empty where no node is known. */
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

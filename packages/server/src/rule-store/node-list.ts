/** The nodes that reported to a store which keeps them in memory. */
import type { NodeReport, NodeSeen } from './rule-store.js'

/** Those that were silent for longer are not told. */
const NODE_SEEN_MS_MAX = 60_000
const NODES_MAX = 1000

export class NodeList {
  /** In the order of their last reports. */
  readonly #seen = new Map<string, { readonly report: NodeReport; readonly atMs: number }>()

  add(report: NodeReport, nowMs: number): void {
    this.#seen.delete(report.id)
    this.#seen.set(report.id, { report: { ...report }, atMs: nowMs })
    for (const [id, { atMs }] of this.#seen) {
      if (this.#seen.size <= NODES_MAX && nowMs - atMs <= NODE_SEEN_MS_MAX) break
      this.#seen.delete(id)
    }
  }

  list(nowMs: number): readonly NodeSeen[] {
    return [...this.#seen.values()]
      .map(({ report, atMs }) => ({ ...report, seenMsAgo: Math.max(0, nowMs - atMs) }))
      .filter(({ seenMsAgo }) => seenMsAgo <= NODE_SEEN_MS_MAX)
  }
}

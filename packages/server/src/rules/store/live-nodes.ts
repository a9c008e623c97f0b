/** The nodes that reported to a rule store, kept in memory. */
import type { NodeReport, LiveNode } from './rule-store.js'

/** Nodes that did not report for longer are not listed. */
const REPORT_AGE_MS_MAX = 60_000
const NODES_MAX = 1000

export class LiveNodes {
  /** In the order of their last reports. */
  readonly #reports = new Map<string, { readonly report: NodeReport; readonly atMs: number }>()

  add(report: NodeReport, nowMs: number): void {
    this.#reports.delete(report.id)
    this.#reports.set(report.id, { report: { ...report }, atMs: nowMs })
    for (const [id, { atMs }] of this.#reports) {
      if (this.#reports.size <= NODES_MAX && nowMs - atMs <= REPORT_AGE_MS_MAX) break
      this.#reports.delete(id)
    }
  }

  list(nowMs: number): readonly LiveNode[] {
    return [...this.#reports.values()]
      .map(({ report, atMs }) => ({ ...report, seenMsAgo: Math.max(0, nowMs - atMs) }))
      .filter(({ seenMsAgo }) => seenMsAgo <= REPORT_AGE_MS_MAX)
  }
}

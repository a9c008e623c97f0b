/**
 * The alerts of several workers as those of one process: what all of them see is told once, when
 * the first sees it, and is over when the last does not any more.
 */
import type { WallClock } from '../../lib/wall-clock.js'
import type { Alert, AlertSink } from './alert.js'

/** Workers are at most 64, of which each has at most 200; most see the same. */
const IDS_MAX = 2000

export class AlertHub {
  readonly #sink: AlertSink
  readonly #clock: WallClock
  /** By id, what was told, and the workers that see it. */
  readonly #known = new Map<string, { readonly alert: Alert; readonly workers: Set<number> }>()

  constructor(sink: AlertSink, clock: WallClock) {
    this.#sink = sink
    this.#clock = clock
  }

  report(worker: number, alert: Alert): void {
    if (alert.resolvedAt !== null) return this.resolve(worker, alert)
    const known = this.#known.get(alert.id)
    if (known !== undefined) return void known.workers.add(worker)
    if (this.#known.size >= IDS_MAX) return
    this.#known.set(alert.id, { alert: alert, workers: new Set([worker]) })
    this.#sink.notify(alert)
  }

  /** A worker that has ended sees nothing any more; the one after it will say what it sees. */
  removeWorker(worker: number): void {
    const resolvedAt = new Date(this.#clock.now()).toISOString()
    for (const { alert, workers } of this.#known.values()) {
      if (!workers.has(worker)) continue
      const summary = `The worker that saw it has ended; it said: ${alert.summary}`
      this.resolve(worker, { ...alert, summary, resolvedAt })
    }
  }

  close(): Promise<void> {
    return this.#sink.close()
  }

  private resolve(worker: number, alert: Alert): void {
    const known = this.#known.get(alert.id)
    if (known === undefined) return
    known.workers.delete(worker)
    if (known.workers.size > 0) return
    this.#known.delete(alert.id)
    // It began when the first worker saw it, which need not be the one that saw it last.
    this.#sink.notify({ ...alert, since: known.alert.since, node: known.alert.node })
  }
}

/**
 * Merges the alerts of several workers: an alert begins when the first worker reports it and ends
 * when the last one resolves it.
 */
import type { WallClock } from '../../lib/wall-clock.js'
import type { Alert, AlertSink } from './alert.js'

/** At most 64 workers have at most 250 active alerts each; most report the same ones. */
const IDS_MAX = 2000

export class AlertHub {
  readonly #sink: AlertSink
  readonly #clock: WallClock
  /** By id: the alert as notified, and the workers in which it is active. */
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
    this.#known.set(alert.id, { alert, workers: new Set([worker]) })
    this.#sink.notify(alert)
  }

  /** Resolves the alerts of a worker that ended; its successor reports what persists. */
  removeWorker(worker: number): void {
    const resolvedAt = new Date(this.#clock.now()).toISOString()
    for (const { alert, workers } of this.#known.values()) {
      if (!workers.has(worker)) continue
      const summary = `The worker that reported this has ended. Its last report: ${alert.summary}`
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
    // The alert began when the first worker reported it, which may be another one.
    this.#sink.notify({ ...alert, since: known.alert.since, node: known.alert.node })
  }
}

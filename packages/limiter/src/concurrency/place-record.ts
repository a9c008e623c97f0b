/** What this node holds of one counter of calls in flight, and what it knows of its record. */
import type { CounterKey, Limit } from '@sluice/core'
import type { CounterEntry } from '../coordination/local/counter-map.js'

export class PlaceRecord implements CounterEntry {
  readonly key: CounterKey
  /** That of the last take: a counter continues when its limit changes. */
  limit: Limit
  /** The places of calls in flight that the store has granted. */
  held = 0
  /** When the last request was sent that renewed the lease, by the clock that never steps. */
  renewedMs: number
  /** When the last request was sent that may have changed the record. */
  touchedMs: number
  /**
   * Since when the store may count more or fewer places than are held, because it did not say what
   * became of a request; undefined: it counts as many.
   */
  doubtedMs: number | undefined
  /** How often the record was overwritten. A place that was granted before that is gone. */
  overwrites = 0
  /** While the record is being overwritten: resolves when takes may be sent again. */
  repair: Promise<void> | undefined
  isRenewing = false
  #pending = 0
  #onSettled: (() => void) | undefined

  constructor(key: CounterKey, limit: Limit, nowMs: number) {
    this.key = key
    this.limit = limit
    this.renewedMs = nowMs
    this.touchedMs = nowMs
  }

  get leaseMs(): number {
    return this.limit.windowUs / 1000
  }

  /** A request that may change the record is sent. */
  begin(nowMs: number): void {
    this.#pending += 1
    this.touchedMs = nowMs
  }

  /** A request is answered, or can no longer run. */
  end(): void {
    this.#pending -= 1
    if (this.#pending > 0) return
    this.#onSettled?.()
    this.#onSettled = undefined
  }

  /** Resolves when no request is under way. */
  settled(): Promise<void> {
    if (this.#pending === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.#onSettled = resolve
    })
  }

  doubt(nowMs: number): void {
    this.doubtedMs = nowMs
  }

  /** Whether nothing is held and nothing is left in the store, or soon will be. */
  isOver(nowMs: number, graceMs: number): boolean {
    if (this.held > 0 || this.#pending > 0 || this.repair !== undefined) return false
    return this.doubtedMs === undefined || nowMs - this.touchedMs > this.leaseMs + graceMs
  }
}

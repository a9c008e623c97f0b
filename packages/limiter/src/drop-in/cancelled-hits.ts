/**
 * Hits that were taken back while it was unknown whether the store had counted them. If the store
 * turns out not to have run them, they are not charged to it later.
 */
import type { CounterKey } from '@sluice/core'

interface Cancelled {
  readonly amount: number
  /** When the window of the hits has ended, in the store's time. */
  readonly until: number
}

/** The most counters with cancelled hits; more are charged all the same, which is too strict. */
export const CANCELLED_COUNTERS_MAX = 10_000

/** How long no ended windows are looked for after that was done, as it visits all counters. */
const SWEEP_PAUSE_US = 100_000

export class CancelledHits {
  readonly #cancelled = new Map<string, Cancelled>()
  /** When the next windows have ended; until then it is no use to look for them. */
  #nextSweep = Number.POSITIVE_INFINITY

  /** Times are the store's; the window of the hits has ended at `until`. */
  add(key: CounterKey, amount: number, now: number, until: number): void {
    const name = nameOf(key)
    const before = this.#cancelled.get(name)
    if (before === undefined && !this.hasRoom(now)) return
    const open = before === undefined || before.until <= now ? 0 : before.amount
    this.#cancelled.set(name, { amount: open + amount, until })
    this.#nextSweep = Math.min(this.#nextSweep, until)
  }

  /** Returns what is left of a charge after the cancelled hits of its counter. */
  settle(key: CounterKey, amount: number, now: number): number {
    const name = nameOf(key)
    const cancelled = this.#cancelled.get(name)
    if (cancelled === undefined) return amount
    const left = cancelled.amount - amount
    if (left <= 0 || cancelled.until <= now) this.#cancelled.delete(name)
    else this.#cancelled.set(name, { ...cancelled, amount: left })
    return cancelled.until <= now ? amount : Math.max(0, amount - cancelled.amount)
  }

  /** Forgets windows that have ended, if there is no room without it. */
  private hasRoom(now: number): boolean {
    if (this.#cancelled.size < CANCELLED_COUNTERS_MAX) return true
    if (now < this.#nextSweep) return false
    let nextEnd = Number.POSITIVE_INFINITY
    for (const [name, { until }] of this.#cancelled) {
      if (until <= now) this.#cancelled.delete(name)
      else nextEnd = Math.min(nextEnd, until)
    }
    this.#nextSweep = Math.max(nextEnd, now + SWEEP_PAUSE_US)
    return this.#cancelled.size < CANCELLED_COUNTERS_MAX
  }
}

function nameOf({ hi, lo }: CounterKey): string {
  return `${hi}.${lo}`
}

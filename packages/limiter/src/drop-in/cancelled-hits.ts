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
const COUNTERS_MAX = 10_000

export class CancelledHits {
  readonly #cancelled = new Map<string, Cancelled>()

  add(key: CounterKey, amount: number, until: number): void {
    const name = nameOf(key)
    const before = this.#cancelled.get(name)
    if (before === undefined && this.#cancelled.size >= COUNTERS_MAX) return
    this.#cancelled.set(name, { amount: (before?.amount ?? 0) + amount, until })
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
}

function nameOf({ hi, lo }: CounterKey): string {
  return `${hi}.${lo}`
}

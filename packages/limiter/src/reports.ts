/**
 * What was spent here while the store was silent, and is charged to it when it answers again: down
 * to empty, for this and the last window only. Only what the store certainly did not take itself.
 */
import type { CounterKey, Limit } from '@sluice/core'
import { type Scheduler, timers } from './rounds.js'
import type { Store } from './store.js'

interface Spent {
  readonly amount: number
  /** When the last of it was spent, in the store's time. */
  readonly at: number
}

interface Report {
  readonly key: CounterKey
  readonly limit: Limit
  readonly last: Spent | undefined
  readonly present: Spent
}

/** Counters reported on; more are dropped and counted. About 20 MB. */
const REPORTS_MAX = 100_000
const CHARGES_AT_ONCE = 64
/** How soon what waits is charged by a store that answers. */
const RETRY_MS = 250

export class Reports {
  readonly #store: Store
  readonly #time: () => number
  readonly #scheduler: Scheduler
  readonly #waiting = new Map<string, Report>()
  /** Counters that were reset while a charge to them was under way: what fails is not put back. */
  readonly #forgotten = new Set<string>()
  #dropped = 0
  /**
   * Whether the store answered when it was last asked. While it does not, nothing is charged: of
   * what is sent then nobody would know whether it ran.
   */
  isAnswering = true
  #isFlushing = false
  #isClosed = false
  #callOffRetry: (() => void) | undefined

  /** `time` is the store's. */
  constructor(store: Store, time: () => number, scheduler = timers) {
    this.#store = store
    this.#time = time
    this.#scheduler = scheduler
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** Units that were spent and will not be charged: there were too many, or nobody knows. */
  get dropped(): number {
    return this.#dropped
  }

  add(key: CounterKey, limit: Limit, amount: number, at: number): void {
    if (this.#isClosed) return
    const name = nameOf(key)
    const before = this.#waiting.get(name)
    if (before === undefined && this.#waiting.size >= REPORTS_MAX) {
      this.#dropped += amount
      return
    }
    const report = { key, limit, last: undefined, present: { amount, at } }
    this.#waiting.set(name, before === undefined ? report : merge(before, report))
    this.retryLater()
  }

  /** The counter was reset: what was spent before is forgotten with it. */
  forget(key: CounterKey): void {
    this.#waiting.delete(nameOf(key))
    if (this.#isFlushing && this.#forgotten.size < REPORTS_MAX) this.#forgotten.add(nameOf(key))
  }

  /** Charges what waits, oldest first. What fails waits on. */
  flush(): void {
    if (this.#isFlushing || this.#isClosed || this.#waiting.size === 0) return
    this.#isFlushing = true
    void this.chargeAll().finally(() => {
      this.#isFlushing = false
      this.#forgotten.clear()
      if (this.#waiting.size > 0) this.retryLater()
    })
  }

  close(): void {
    this.#isClosed = true
    this.#callOffRetry?.()
  }

  private async chargeAll(): Promise<void> {
    while (this.isAnswering && !this.#isClosed && this.#waiting.size > 0) {
      const batch: Report[] = []
      for (const [name, report] of this.#waiting) {
        if (batch.length === CHARGES_AT_ONCE) break
        batch.push(report)
        this.#waiting.delete(name)
      }
      // All that was under way has settled: what is forgotten from here on is of this batch.
      this.#forgotten.clear()
      const done = await Promise.all(batch.map((report) => this.charge(report)))
      if (!done.every(Boolean)) this.isAnswering = false
    }
  }

  /** False where the store did not answer; then what was not charged waits on. */
  private async charge(report: Report): Promise<boolean> {
    const { key, limit, last, present } = report
    const rest = { key, limit, last: undefined, present }
    if (last !== undefined && !(await this.chargeOne(report, last))) {
      this.putBack(rest)
      return false
    }
    return this.chargeOne(rest, present)
  }

  private async chargeOne({ key, limit }: Report, spent: Spent): Promise<boolean> {
    if (!this.counts(spent, limit)) return true
    try {
      await this.#store.charge({ key, limit, ...spent, debt: 0 })
      return true
    } catch (error) {
      if (mayHaveRun(error)) this.#dropped += spent.amount
      else this.putBack({ key, limit, last: undefined, present: spent })
      return false
    }
  }

  private counts({ at }: Spent, limit: Limit): boolean {
    return windowOf(this.#time(), limit) - windowOf(at, limit) <= 1
  }

  private putBack(report: Report): void {
    if (this.#forgotten.has(nameOf(report.key))) return
    const since = this.#waiting.get(nameOf(report.key))
    this.#waiting.set(nameOf(report.key), merge(report, since))
  }

  private retryLater(): void {
    if (this.#callOffRetry !== undefined || this.#isClosed) return
    this.#callOffRetry = this.#scheduler.after(RETRY_MS, () => {
      this.#callOffRetry = undefined
      if (this.isAnswering) this.flush()
      else this.retryLater()
    })
  }
}

function nameOf({ hi, lo }: CounterKey): string {
  return `${hi}.${lo}`
}

function windowOf(at: number, { windowUs }: Limit): number {
  return Math.floor(at / windowUs)
}

/** Spendings of one window become one; of an earlier one than the last nothing is kept. */
function merge(before: Report, next: Report | undefined): Report {
  if (next === undefined) return before
  const { key, limit, present, last } = next
  const gap = windowOf(present.at, limit) - windowOf(before.present.at, limit)
  if (gap === 1) return { key, limit, last: sum(last, before.present), present }
  if (gap > 1) return next
  // What is told late may be of the window before.
  if (gap === -1) return { ...before, last: sum(before.last, present) }
  if (gap < -1) return before
  return { key, limit, last: sum(before.last, last), present: sum(before.present, present) }
}

function sum<Part extends Spent | undefined>(a: Spent | undefined, b: Part): Spent | Part {
  if (a === undefined || b === undefined) return a ?? b
  return { amount: a.amount + b.amount, at: Math.max(a.at, b.at) }
}

/** A store that knows says so: what may have been charged is not charged again. */
export function mayHaveRun(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'silence' in error
    ? error.silence === 'unknown'
    : false
}

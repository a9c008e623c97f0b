/**
 * Charges to the store, once it answers again, what was spent locally while it did not: down to
 * empty, or into the debt of a limit with `onRefusal: overdraw`, for the present and the last
 * window only, and only what the store certainly did not take itself.
 */
import { type CounterKey, type Limit, windowNumberOf } from '@sluice/core'
import { type Scheduler, systemScheduler } from './periodic.js'
import type { Store } from './store.js'

interface WindowUsage {
  readonly amount: number
  /** When the last of it was spent, in the store's time. */
  readonly at: number
}

interface DeferredCharge {
  readonly key: CounterKey
  readonly limit: Limit
  readonly last: WindowUsage | undefined
  readonly present: WindowUsage
}

/** Most counters with a deferred charge; more are dropped and counted. About 20 MB. */
const CHARGES_MAX = 100_000
const CHARGES_AT_ONCE = 64
/** How often deferred charges are retried. */
const RETRY_MS = 250

export class DeferredCharges {
  readonly #store: Store
  readonly #time: () => number
  readonly #scheduler: Scheduler
  readonly #waiting = new Map<string, DeferredCharge>()
  /** Counters that were reset while a charge was running: if it fails it is not queued again. */
  readonly #forgotten = new Set<string>()
  #dropped = 0
  /**
   * Whether the store answered the last request. While it does not, nothing is charged, because it
   * would be unknown whether the charge ran.
   */
  isStoreAnswering = true
  #isFlushing = false
  #isClosed = false
  #cancelRetry: (() => void) | undefined

  /** `time` is the store's time. */
  constructor(store: Store, time: () => number, scheduler = systemScheduler) {
    this.#store = store
    this.#time = time
    this.#scheduler = scheduler
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** Units spent locally that will never be charged: too many, too old, or with an unknown fate. */
  get dropped(): number {
    return this.#dropped
  }

  add(key: CounterKey, limit: Limit, amount: number, at: number): void {
    if (this.#isClosed) return
    const name = nameOf(key)
    const before = this.#waiting.get(name)
    if (before === undefined && this.#waiting.size >= CHARGES_MAX) {
      this.#dropped += amount
      return
    }
    const deferred = { key, limit, last: undefined, present: { amount, at } }
    this.#waiting.set(name, before === undefined ? deferred : merge(before, deferred))
    this.retryLater()
  }

  /** Drops what was spent on a counter that was reset. */
  forget(key: CounterKey): void {
    this.#waiting.delete(nameOf(key))
    if (this.#isFlushing && this.#forgotten.size < CHARGES_MAX) this.#forgotten.add(nameOf(key))
  }

  /** Takes back what was spent locally before it is charged; returns how much of it that was. */
  cancel(key: CounterKey, amount: number): number {
    const name = nameOf(key)
    const waiting = this.#waiting.get(name)
    if (waiting === undefined) return 0
    const { present, last } = waiting
    const cancelled = Math.min(amount, present.amount)
    const left = present.amount - cancelled
    if (left === 0 && last === undefined) this.#waiting.delete(name)
    else this.#waiting.set(name, { ...waiting, present: { amount: left, at: present.at } })
    return cancelled
  }

  /** Charges everything queued, oldest first. What fails is queued again. */
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
    this.#cancelRetry?.()
  }

  private async chargeAll(): Promise<void> {
    while (this.isStoreAnswering && !this.#isClosed && this.#waiting.size > 0) {
      const batch: DeferredCharge[] = []
      for (const [name, deferred] of this.#waiting) {
        if (batch.length === CHARGES_AT_ONCE) break
        batch.push(deferred)
        this.#waiting.delete(name)
      }
      // The last batch has settled: what is forgotten from here on belongs to this batch.
      this.#forgotten.clear()
      const done = await Promise.all(batch.map((deferred) => this.charge(deferred)))
      if (!done.every(Boolean)) this.isStoreAnswering = false
    }
  }

  /** False if the store did not answer; what was not charged is queued again. */
  private async charge(deferred: DeferredCharge): Promise<boolean> {
    const { key, limit, last, present } = deferred
    const rest = { key, limit, last: undefined, present }
    if (last !== undefined && !(await this.chargeOne(deferred, last))) {
      this.requeue(rest)
      return false
    }
    return this.chargeOne(rest, present)
  }

  private async chargeOne({ key, limit }: DeferredCharge, usage: WindowUsage): Promise<boolean> {
    if (!this.isChargeable(usage, limit)) return true
    try {
      const debt = limit.onRefusal === 'overdraw' ? limit.debt : 0
      await this.#store.charge({ key, limit, ...usage, debt })
      return true
    } catch (error) {
      if (mayHaveRun(error)) this.#dropped += usage.amount
      else this.requeue({ key, limit, last: undefined, present: usage })
      return false
    }
  }

  private isChargeable({ at }: WindowUsage, limit: Limit): boolean {
    return windowNumberOf(limit, this.#time()) - windowNumberOf(limit, at) <= 1
  }

  private requeue(deferred: DeferredCharge): void {
    if (this.#forgotten.has(nameOf(deferred.key))) return
    const since = this.#waiting.get(nameOf(deferred.key))
    this.#waiting.set(nameOf(deferred.key), merge(deferred, since))
  }

  private retryLater(): void {
    if (this.#cancelRetry !== undefined || this.#isClosed) return
    this.#cancelRetry = this.#scheduler.after(RETRY_MS, () => {
      this.#cancelRetry = undefined
      if (this.isStoreAnswering) this.flush()
      else this.retryLater()
    })
  }
}

function nameOf({ hi, lo }: CounterKey): string {
  return `${hi}.${lo}`
}

/** Adds the usage of one window up; usage older than the last window is dropped. */
function merge(before: DeferredCharge, next: DeferredCharge | undefined): DeferredCharge {
  if (next === undefined) return before
  const { key, limit, present, last } = next
  const gap = windowNumberOf(limit, present.at) - windowNumberOf(limit, before.present.at)
  if (gap === 1) return { key, limit, last: sum(last, before.present), present }
  if (gap > 1) return next
  // Late usage may belong to the window before.
  if (gap === -1) return { ...before, last: sum(before.last, present) }
  if (gap < -1) return before
  return { key, limit, last: sum(before.last, last), present: sum(before.present, present) }
}

function sum<Part extends WindowUsage | undefined>(
  a: WindowUsage | undefined,
  b: Part,
): WindowUsage | Part {
  if (a === undefined || b === undefined) return a ?? b
  return { amount: a.amount + b.amount, at: Math.max(a.at, b.at) }
}

/**
 * Whether a failed operation may have run, by what the store says; such a charge is not repeated.
 */
export function mayHaveRun(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'silence' in error
    ? error.silence === 'unknown'
    : false
}

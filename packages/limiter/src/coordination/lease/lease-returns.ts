/**
 * Returns leased units to the store. A return that certainly did not run is sent again; otherwise
 * every short outage would remove leases from the limit until the end of a window that may last for
 * days. A return that may have run is not repeated: units must not be returned twice.
 */
import { mayHaveRun } from '../../deferred-charges.js'
import type { CoordinationDeps } from '../node-decider.js'
import type { Lease } from './lease.js'
import type { LeasedCounter } from './leased-counter.js'

interface PendingReturn {
  readonly lease: Lease
  readonly units: number
}

/** The most returns queued for a store that does not answer; more are lost. About 4 MB. */
const WAITING_MAX = 50_000

export interface LeaseReturnEvents {
  /** Called once for each return when its result is known. */
  onSettled(lease: Lease, units: number, isDone: boolean): void
  /** Called when a return was queued for `flush`. */
  onWaiting(): void
}

export class LeaseReturns {
  readonly #deps: CoordinationDeps
  readonly #events: LeaseReturnEvents
  #waiting: PendingReturn[] = []
  /** Set on close: each return is sent once more and then settled, whatever the result. */
  #isEnding = false

  constructor(deps: CoordinationDeps, events: LeaseReturnEvents) {
    this.#deps = deps
    this.#events = events
  }

  get waiting(): number {
    return this.#waiting.length
  }

  /**
   * Sends a return, or queues it while the store does not answer, because its result would be
   * unknown.
   */
  give(lease: Lease, units: number): void {
    if (this.#isEnding || this.#deps.isStoreAnswering()) this.send(lease, units)
    else this.wait(lease, units)
  }

  /** Sends up to `most` queued returns if the store answers. */
  flush(most: number): void {
    this.settleExpired()
    if (!this.#deps.isStoreAnswering()) return
    for (const { lease, units } of this.#waiting.splice(0, most)) this.send(lease, units)
  }

  /** Settles queued returns of units that have refilled by themselves. */
  private settleExpired(): void {
    const waiting = this.#waiting
    this.#waiting = waiting.filter(({ lease }) => !this.isTooLate(lease))
    if (this.#waiting.length === waiting.length) return
    const left = new Set(this.#waiting)
    for (const each of waiting) {
      if (!left.has(each)) this.#events.onSettled(each.lease, each.units, true)
    }
  }

  /** Drops queued returns to a counter that was reset. */
  forget(counter: LeasedCounter): void {
    const gone = this.#waiting.filter(({ lease }) => lease.counter === counter)
    if (gone.length === 0) return
    this.#waiting = this.#waiting.filter(({ lease }) => lease.counter !== counter)
    for (const { lease, units } of gone) this.#events.onSettled(lease, units, false)
  }

  /** Sends every queued return because the node shuts down, whatever the store does. */
  flushAll(): void {
    this.#isEnding = true
    for (const { lease, units } of this.#waiting.splice(0)) this.send(lease, units)
  }

  private send(lease: Lease, units: number): void {
    const { store, invalidate } = this.#deps
    const { counter, limit, at } = lease
    const { resets } = counter
    invalidate(counter.key)
    const give = async () => store.give({ key: counter.key, limit, amount: units, at })
    give().then(
      () => this.settle(lease, units, true),
      (error: unknown) => {
        const isOver = this.#isEnding || resets !== counter.resets || this.isTooLate(lease)
        if (!isOver && !mayHaveRun(error)) this.wait(lease, units)
        else this.settle(lease, units, false)
      },
    )
  }

  private settle(lease: Lease, units: number, isDone: boolean): void {
    this.#deps.invalidate(lease.counter.key)
    this.#events.onSettled(lease, units, isDone)
  }

  private wait(lease: Lease, units: number): void {
    if (this.#waiting.length >= WAITING_MAX) this.settle(lease, units, false)
    else {
      this.#waiting.push({ lease, units })
      this.#events.onWaiting()
    }
  }

  /** Whether the window of the units is over, or they have refilled by themselves. */
  private isTooLate(lease: Lease): boolean {
    const { monotonicMs, wallUs } = this.#deps
    return lease.isWorthless(monotonicMs(), wallUs())
  }
}

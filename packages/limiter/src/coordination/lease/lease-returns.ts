/**
 * Units on their way back to the store. What certainly did not arrive is sent again, or every short
 * silence of the store would take its leases from the limit, until the end of a window that may
 * last for days. What may have arrived is not: it must not be given twice.
 */
import { mayHaveRun } from '../../deferred-charges.js'
import type { CoordinationDeps } from '../node-decider.js'
import type { Lease } from './lease.js'
import type { LeasedCounter } from './leased-counter.js'

interface PendingReturn {
  readonly lease: Lease
  readonly units: number
}

/** Returns that wait for a store that does not answer; more are lost. About 4 MB. */
const WAITING_MAX = 50_000

export interface LeaseReturnEvents {
  /** Called once for each return, when it is known what became of it. */
  onSettled(lease: Lease, units: number, isDone: boolean): void
  /** Something waits to be sent by `flush`. */
  onWaiting(): void
}

export class LeaseReturns {
  readonly #deps: CoordinationDeps
  readonly #events: LeaseReturnEvents
  #waiting: PendingReturn[] = []
  /** Nothing waits any longer: each is sent once more, and then settled whatever became of it. */
  #isEnding = false

  constructor(deps: CoordinationDeps, events: LeaseReturnEvents) {
    this.#deps = deps
    this.#events = events
  }

  get waiting(): number {
    return this.#waiting.length
  }

  /** While the store does not answer nothing is sent: nobody would know whether it arrived. */
  give(lease: Lease, units: number): void {
    if (this.#isEnding || this.#deps.isStoreAnswering()) this.send(lease, units)
    else this.wait(lease, units)
  }

  /** Sends what waits, if the store answers; at most so many. */
  flush(most: number): void {
    this.settleExpired()
    if (!this.#deps.isStoreAnswering()) return
    for (const { lease, units } of this.#waiting.splice(0, most)) this.send(lease, units)
  }

  /** What time has returned needs no store, and waits for none that nobody asks. */
  private settleExpired(): void {
    const waiting = this.#waiting
    this.#waiting = waiting.filter(({ lease }) => !this.isTooLate(lease))
    if (this.#waiting.length === waiting.length) return
    const left = new Set(this.#waiting)
    for (const each of waiting) {
      if (!left.has(each)) this.#events.onSettled(each.lease, each.units, true)
    }
  }

  /** The counter was reset: what waits to go back to it belongs nowhere. */
  forget(counter: LeasedCounter): void {
    const gone = this.#waiting.filter(({ lease }) => lease.counter === counter)
    if (gone.length === 0) return
    this.#waiting = this.#waiting.filter(({ lease }) => lease.counter !== counter)
    for (const { lease, units } of gone) this.#events.onSettled(lease, units, false)
  }

  /** The node ends: what waits is sent whatever the store does, or lost. */
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

  /** The window they came from is over, or time has returned them. */
  private isTooLate(lease: Lease): boolean {
    const { monotonicMs, wallUs } = this.#deps
    return lease.isWorthless(monotonicMs(), wallUs())
  }
}

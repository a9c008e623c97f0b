/**
 * The leases that a node holds: at most its part of `maxStranded`, until they are spent, expire,
 * become idle, or the fleet grows. The rest goes back to the store.
 */
import type { CompiledLimit } from '@sluice/core'
import type { CoordinationDeps } from '../node-decider.js'
import type { Lease } from './lease.js'
import type { LeasedCounter } from './leased-counter.js'
import { LeaseReturns } from './lease-returns.js'

/** The most leases of one counter: calls of different costs leave a few units in each. */
const LEASES_MAX = 4
/** The most counters that hold or draw at once; the store decides calls of others. */
const BUSY_MAX = 25_000
/** A lease goes back if it is not used for 1/IDLE_SHARE of its lifetime. */
export const IDLE_SHARE = 4
const SWEEP_MS = 50
/** The most counters whose leases one sweep returns, so that the store is not flooded. */
const GIVEN_PER_SWEEP = 512

export class Holdings {
  readonly #deps: CoordinationDeps
  /** Counters with units held, drawn or being returned. */
  readonly #busy = new Set<LeasedCounter>()
  /** Draws and returns that the store has not answered yet. */
  #requestsInFlight = 0
  readonly #returns: LeaseReturns
  #cancel: (() => void) | undefined
  #onQuiet: (() => void)[] = []
  #isStopped = false

  constructor(deps: CoordinationDeps) {
    this.#deps = deps
    this.#returns = new LeaseReturns(deps, {
      onSettled: (lease, units, isDone) => this.onReturned(lease, units, isDone),
      onWaiting: () => this.sweepLater(),
    })
  }

  get busy(): ReadonlySet<LeasedCounter> {
    return this.#busy
  }

  /** Whether this counter may hold units. */
  hasRoomFor(counter: LeasedCounter): boolean {
    return this.#busy.size < BUSY_MAX || this.#busy.has(counter)
  }

  /** This node's part of `maxStranded`, in units. */
  maxHeld({ maxStranded, immediate }: CompiledLimit): number {
    const nodes = Math.max(1, Math.floor(this.#deps.fleetSize()))
    return Math.floor((maxStranded * immediate.capacity) / nodes)
  }

  /**
   * Holds at most `most` units of a lease. Each draw stays a lease of its own, with its own expiry.
   */
  hold(lease: Lease, most: number): void {
    const { counter } = lease
    const excess = Math.max(0, lease.units - most)
    lease.units -= excess
    if (excess > 0) this.giveBack(lease, excess)
    for (const older of counter.leases) if (older.units === 0) older.state = 'closed'
    counter.leases = [...counter.leases.filter(({ state }) => state === 'open'), lease]
    const [oldest] = counter.leases
    if (counter.leases.length > LEASES_MAX && oldest !== undefined) {
      counter.leases = counter.leases.slice(1)
      this.close(oldest)
    }
    this.markBusy(counter)
    this.sweepLater()
  }

  /** Puts back units of a call that another limit refused. */
  putBack(lease: Lease, units: number): void {
    if (lease.state === 'forgotten') this.lose(lease, units)
    else if (this.mayHold(lease, units)) lease.units += units
    else this.giveBack(lease, units)
  }

  /** Closes a lease and returns what was not spent. */
  close(lease: Lease): void {
    const { units } = lease
    lease.state = 'closed'
    lease.units = 0
    if (units > 0) this.giveBack(lease, units)
  }

  closeAll(counter: LeasedCounter): void {
    const { leases } = counter
    counter.leases = []
    for (const lease of leases) this.close(lease)
    this.unmarkIdle(counter)
  }

  /** Drops a lease of a counter that was reset: there is nothing to return it to. */
  forget(lease: Lease): void {
    lease.state = 'forgotten'
    this.lose(lease, lease.units)
    lease.units = 0
  }

  forgetAll(counter: LeasedCounter): void {
    for (const lease of counter.leases) this.forget(lease)
    counter.leases = []
    this.#returns.forget(counter)
    this.unmarkIdle(counter)
  }

  /** Returns units that were removed from the lease, with the time at which they were drawn. */
  giveBack(lease: Lease, units: number): void {
    const { counter } = lease
    const { monotonicMs, wallUs } = this.#deps
    if (lease.mayBeRegained(monotonicMs(), wallUs())) {
      counter.stats.held -= units
      counter.stats.givenBack += units
      return
    }
    counter.giving += units
    counter.exhaustion = undefined
    this.beginRequest(counter)
    this.#returns.give(lease, units)
  }

  private onReturned({ counter }: Lease, units: number, isDone: boolean): void {
    counter.exhaustion = undefined
    counter.giving -= units
    counter.stats.held -= units
    if (isDone) counter.stats.givenBack += units
    else counter.stats.lost += units
    this.endRequest(counter)
  }

  expire(counter: LeasedCounter, nowMs: number, wallUs: number): void {
    if (!counter.leases.some((lease) => lease.isOver(nowMs, wallUs))) return
    const over = counter.leases.filter((lease) => lease.isOver(nowMs, wallUs))
    counter.leases = counter.leases.filter((lease) => !over.includes(lease))
    for (const lease of over) this.close(lease)
    this.unmarkIdle(counter)
  }

  /** Registers a store request for a counter; `endRequest` must follow. */
  beginRequest(counter: LeasedCounter): void {
    this.#requestsInFlight += 1
    this.markBusy(counter)
  }

  endRequest(counter: LeasedCounter): void {
    this.unmarkIdle(counter)
    this.#requestsInFlight -= 1
    if (this.#requestsInFlight > 0) return
    for (const quiet of this.#onQuiet.splice(0)) quiet()
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
    this.#isStopped = true
    this.#returns.flushAll()
  }

  /** Resolves when the store has answered all requests. */
  async whenQuiet(): Promise<void> {
    if (this.#requestsInFlight > 0)
      await new Promise<void>((quiet) => void this.#onQuiet.push(quiet))
  }

  private mayHold(lease: Lease, units: number): boolean {
    const { counter } = lease
    if (lease.state !== 'open') return false
    if (lease.isOver(this.#deps.monotonicMs(), this.#deps.wallUs())) return false
    return counter.outstanding + units <= this.maxHeld(counter.compiled)
  }

  private lose({ counter }: Lease, units: number): void {
    counter.stats.held -= units
    counter.stats.lost += units
  }

  /** Returns units above this node's part, oldest first, because the fleet has grown. */
  private trim(counter: LeasedCounter): void {
    let excess = counter.held - this.maxHeld(counter.compiled)
    for (const lease of counter.leases) {
      const units = Math.min(excess, lease.units)
      if (units <= 0) continue
      excess -= units
      lease.units -= units
      this.giveBack(lease, units)
    }
  }

  /** Uses one timer for all leases, and none if there are none. */
  private sweepLater(): void {
    if (this.#isStopped) return
    this.#cancel ??= this.#deps.scheduler.after(SWEEP_MS, () => {
      this.#cancel = undefined
      this.sweep()
    })
  }

  private sweep(): void {
    const nowMs = this.#deps.monotonicMs()
    const wallUs = this.#deps.wallUs()
    this.#returns.flush(GIVEN_PER_SWEEP)
    let areHeld = this.#returns.waiting > 0
    let givenCount = 0
    for (const counter of this.#busy) {
      if (givenCount < GIVEN_PER_SWEEP) {
        const { giving } = counter
        if (nowMs - counter.usedMs >= counter.leaseMs / IDLE_SHARE) this.closeAll(counter)
        else {
          this.expire(counter, nowMs, wallUs)
          this.trim(counter)
        }
        if (counter.giving > giving) givenCount += 1
      }
      areHeld ||= counter.leases.length > 0
    }
    if (areHeld) this.sweepLater()
  }

  private markBusy(counter: LeasedCounter): void {
    if (this.#busy.has(counter)) return
    this.#busy.add(counter)
    counter.stats.counters += 1
  }

  private unmarkIdle(counter: LeasedCounter): void {
    if (!counter.isBusy && this.#busy.delete(counter)) counter.stats.counters -= 1
  }
}

/** Turns a synchronous throw of a store into a rejection. */
export async function runAsync<Result>(ask: () => Promise<Result>): Promise<Result> {
  return await ask()
}

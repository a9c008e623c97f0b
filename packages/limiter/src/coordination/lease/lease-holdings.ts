/**
 * What a node holds of all counters: at most its part of what may lie stranded, until it is spent,
 * its lease is over, nobody asks for it, or the fleet grows. The rest goes back to the store.
 */
import type { CompiledLimit } from '@sluice/core'
import type { CoordinationDeps } from '../node-decider.js'
import type { Lease } from './lease.js'
import type { LeasedCounter } from './leased-counter.js'
import { LeaseReturns } from './lease-returns.js'

/** Leases of one counter: calls of different costs leave a few units of each. */
const LEASES_MAX = 4
/** Counters that hold or draw something at once; the store decides the calls of others. */
const BUSY_MAX = 25_000
/** A lease that nobody asks for in this part of its time goes back. */
export const IDLE_SHARE = 4
const SWEEP_MS = 50
/** Counters whose leases one sweep gives back: a store is not flooded with what is over anyway. */
const GIVEN_PER_SWEEP = 512

export class Holdings {
  readonly #deps: CoordinationDeps
  /** Counters of which something is held, drawn or on its way back. */
  readonly #busy = new Set<LeasedCounter>()
  /** Draws and gives that the store has not answered yet. */
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

  /** Whether a counter may begin to hold something. */
  hasRoomFor(counter: LeasedCounter): boolean {
    return this.#busy.size < BUSY_MAX || this.#busy.has(counter)
  }

  /** This node's part of what may lie stranded. */
  maxHeld({ maxStranded, immediate }: CompiledLimit): number {
    const nodes = Math.max(1, Math.floor(this.#deps.fleetSize()))
    return Math.floor((maxStranded * immediate.capacity) / nodes)
  }

  /** At most so many units. Each draw stays apart: its units have their own time and end. */
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

  /** Units of a call that was refused elsewhere. */
  putBack(lease: Lease, units: number): void {
    if (lease.state === 'forgotten') this.lose(lease, units)
    else if (this.mayHold(lease, units)) lease.units += units
    else this.giveBack(lease, units)
  }

  /** Nothing more of it is spent; what was not goes back. */
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

  /** The counter was reset: there is nothing that it could be given back. */
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

  /** Returns units that are no longer in the lease, under the time they were drawn at. */
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

  /** The store is asked something about a counter; `answered` must follow. */
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

  /** Until the store has answered all that it was asked. */
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

  /** The fleet has grown: what is beyond this node's part goes back, the oldest first. */
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

  /** One timer for all leases, and none while there are none. */
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

/** What a store throws is a failure like any other. */
export async function runAsync<Result>(ask: () => Promise<Result>): Promise<Result> {
  return await ask()
}

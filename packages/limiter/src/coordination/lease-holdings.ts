/**
 * What a node holds of all counters: at most its part of what may lie stranded, until it is spent,
 * its lease is over, nobody asks for it, or the fleet grows. The rest goes back to the store.
 */
import type { CompiledLimit } from '@sluice/core'
import type { NodeParts } from './here.js'
import type { Lease } from './lease.js'
import type { Meter } from './lease-meter.js'
import { Returns } from './lease-returns.js'

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
  readonly #parts: NodeParts
  /** Counters of which something is held, drawn or on its way back. */
  readonly #busy = new Set<Meter>()
  /** Draws and gives that the store has not answered yet. */
  #underWay = 0
  readonly #returns: Returns
  #callOff: (() => void) | undefined
  #onQuiet: (() => void)[] = []
  #isStopped = false

  constructor(parts: NodeParts) {
    this.#parts = parts
    this.#returns = new Returns(parts, {
      settled: (lease, units, isDone) => this.returned(lease, units, isDone),
      waiting: () => this.sweepLater(),
    })
  }

  get busy(): ReadonlySet<Meter> {
    return this.#busy
  }

  /** Whether a counter may begin to hold something. */
  hasRoomFor(meter: Meter): boolean {
    return this.#busy.size < BUSY_MAX || this.#busy.has(meter)
  }

  /** This node's part of what may lie stranded. */
  mostOf({ maxStranded, immediate }: CompiledLimit): number {
    const nodes = Math.max(1, Math.floor(this.#parts.fleetSize()))
    return Math.floor((maxStranded * immediate.capacity) / nodes)
  }

  /** At most so many units. Each draw stays apart: its units have their own time and end. */
  keep(lease: Lease, most: number): void {
    const { meter } = lease
    const excess = Math.max(0, lease.units - most)
    lease.units -= excess
    if (excess > 0) this.giveBack(lease, excess)
    for (const older of meter.leases) if (older.units === 0) older.state = 'closed'
    meter.leases = [...meter.leases.filter(({ state }) => state === 'open'), lease]
    const [oldest] = meter.leases
    if (meter.leases.length > LEASES_MAX && oldest !== undefined) {
      meter.leases = meter.leases.slice(1)
      this.close(oldest)
    }
    this.began(meter)
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

  closeAll(meter: Meter): void {
    const { leases } = meter
    meter.leases = []
    for (const lease of leases) this.close(lease)
    this.ended(meter)
  }

  /** The counter was reset: there is nothing that it could be given back. */
  forget(lease: Lease): void {
    lease.state = 'forgotten'
    this.lose(lease, lease.units)
    lease.units = 0
  }

  forgetAll(meter: Meter): void {
    for (const lease of meter.leases) this.forget(lease)
    meter.leases = []
    this.#returns.forget(meter)
    this.ended(meter)
  }

  /** Returns units that are no longer in the lease, under the time they were drawn at. */
  giveBack(lease: Lease, units: number): void {
    const { meter } = lease
    const { monotonicMs, wallUs } = this.#parts
    if (lease.mayBeRegained(monotonicMs(), wallUs())) {
      meter.tally.held -= units
      meter.tally.givenBack += units
      return
    }
    meter.giving += units
    meter.dry = undefined
    this.asked(meter)
    this.#returns.give(lease, units)
  }

  private returned({ meter }: Lease, units: number, isDone: boolean): void {
    meter.dry = undefined
    meter.giving -= units
    meter.tally.held -= units
    if (isDone) meter.tally.givenBack += units
    else meter.tally.lost += units
    this.answered(meter)
  }

  expire(meter: Meter, nowMs: number, wallUs: number): void {
    if (!meter.leases.some((lease) => lease.isOver(nowMs, wallUs))) return
    const over = meter.leases.filter((lease) => lease.isOver(nowMs, wallUs))
    meter.leases = meter.leases.filter((lease) => !over.includes(lease))
    for (const lease of over) this.close(lease)
    this.ended(meter)
  }

  /** The store is asked something about a counter; `answered` must follow. */
  asked(meter: Meter): void {
    this.#underWay += 1
    this.began(meter)
  }

  answered(meter: Meter): void {
    this.ended(meter)
    this.#underWay -= 1
    if (this.#underWay > 0) return
    for (const quiet of this.#onQuiet.splice(0)) quiet()
  }

  stop(): void {
    this.#callOff?.()
    this.#callOff = undefined
    this.#isStopped = true
    this.#returns.flushAll()
  }

  /** Until the store has answered all that it was asked. */
  async quiet(): Promise<void> {
    if (this.#underWay > 0) await new Promise<void>((quiet) => void this.#onQuiet.push(quiet))
  }

  private mayHold(lease: Lease, units: number): boolean {
    const { meter } = lease
    if (lease.state !== 'open') return false
    if (lease.isOver(this.#parts.monotonicMs(), this.#parts.wallUs())) return false
    return meter.outstanding + units <= this.mostOf(meter.of)
  }

  private lose({ meter }: Lease, units: number): void {
    meter.tally.held -= units
    meter.tally.lost += units
  }

  /** The fleet has grown: what is beyond this node's part goes back, the oldest first. */
  private trim(meter: Meter): void {
    let excess = meter.held - this.mostOf(meter.of)
    for (const lease of meter.leases) {
      const part = Math.min(excess, lease.units)
      if (part <= 0) continue
      excess -= part
      lease.units -= part
      this.giveBack(lease, part)
    }
  }

  /** One timer for all leases, and none while there are none. */
  private sweepLater(): void {
    if (this.#isStopped) return
    this.#callOff ??= this.#parts.scheduler.after(SWEEP_MS, () => {
      this.#callOff = undefined
      this.sweep()
    })
  }

  private sweep(): void {
    const nowMs = this.#parts.monotonicMs()
    const wallUs = this.#parts.wallUs()
    this.#returns.flush(GIVEN_PER_SWEEP)
    let areHeld = this.#returns.waiting > 0
    let given = 0
    for (const meter of this.#busy) {
      if (given < GIVEN_PER_SWEEP) {
        const { giving } = meter
        if (nowMs - meter.usedMs >= meter.leaseMs / IDLE_SHARE) this.closeAll(meter)
        else {
          this.expire(meter, nowMs, wallUs)
          this.trim(meter)
        }
        if (meter.giving > giving) given += 1
      }
      areHeld ||= meter.leases.length > 0
    }
    if (areHeld) this.sweepLater()
  }

  private began(meter: Meter): void {
    if (this.#busy.has(meter)) return
    this.#busy.add(meter)
    meter.tally.counters += 1
  }

  private ended(meter: Meter): void {
    if (!meter.isBusy && this.#busy.delete(meter)) meter.tally.counters -= 1
  }
}

/** What a store throws is a failure like any other. */
export async function started<Result>(ask: () => Promise<Result>): Promise<Result> {
  return await ask()
}

/**
 * Units on their way back to the store. What certainly did not arrive is sent again, or every short
 * silence of the store would take its leases from the limit, until the end of a window that may
 * last for days. What may have arrived is not: it must not be given twice.
 */
import { mayHaveRun } from '../reports.js'
import type { NodeParts } from './here.js'
import type { Lease } from './lease.js'
import type { Meter } from './lease-meter.js'

interface Return {
  readonly lease: Lease
  readonly units: number
}

/** Returns that wait for a store that does not answer; more are lost. About 4 MB. */
const WAITING_MAX = 50_000

export interface ReturnsEvents {
  /** Called once for each return, when it is known what became of it. */
  settled(lease: Lease, units: number, isDone: boolean): void
  /** Something waits to be sent by `flush`. */
  waiting(): void
}

export class Returns {
  readonly #parts: NodeParts
  readonly #events: ReturnsEvents
  #waiting: Return[] = []
  /** Nothing waits any longer: each is sent once more, and then settled whatever became of it. */
  #isEnding = false

  constructor(parts: NodeParts, events: ReturnsEvents) {
    this.#parts = parts
    this.#events = events
  }

  get waiting(): number {
    return this.#waiting.length
  }

  /** While the store does not answer nothing is sent: nobody would know whether it arrived. */
  give(lease: Lease, units: number): void {
    if (this.#isEnding || this.#parts.isAnswering()) this.send(lease, units)
    else this.wait(lease, units)
  }

  /** Sends what waits, if the store answers; at most so many. */
  flush(most: number): void {
    this.settleLate()
    if (!this.#parts.isAnswering()) return
    for (const { lease, units } of this.#waiting.splice(0, most)) this.send(lease, units)
  }

  /** What time has returned needs no store, and waits for none that nobody asks. */
  private settleLate(): void {
    const waiting = this.#waiting
    this.#waiting = waiting.filter(({ lease }) => !this.isTooLate(lease))
    if (this.#waiting.length === waiting.length) return
    const left = new Set(this.#waiting)
    for (const each of waiting) {
      if (!left.has(each)) this.#events.settled(each.lease, each.units, true)
    }
  }

  /** The counter was reset: what waits to go back to it belongs nowhere. */
  forget(meter: Meter): void {
    const gone = this.#waiting.filter(({ lease }) => lease.meter === meter)
    if (gone.length === 0) return
    this.#waiting = this.#waiting.filter(({ lease }) => lease.meter !== meter)
    for (const { lease, units } of gone) this.#events.settled(lease, units, false)
  }

  /** The node ends: what waits is sent whatever the store does, or lost. */
  flushAll(): void {
    this.#isEnding = true
    for (const { lease, units } of this.#waiting.splice(0)) this.send(lease, units)
  }

  private send(lease: Lease, units: number): void {
    const { store, gaveBack } = this.#parts
    const { meter, limit, at } = lease
    const { resets } = meter
    gaveBack(meter.key)
    const give = async () => store.give({ key: meter.key, limit, amount: units, at })
    give().then(
      () => this.settle(lease, units, true),
      (error: unknown) => {
        const isOver = this.#isEnding || resets !== meter.resets || this.isTooLate(lease)
        if (!isOver && !mayHaveRun(error)) this.wait(lease, units)
        else this.settle(lease, units, false)
      },
    )
  }

  private settle(lease: Lease, units: number, isDone: boolean): void {
    this.#parts.gaveBack(lease.meter.key)
    this.#events.settled(lease, units, isDone)
  }

  private wait(lease: Lease, units: number): void {
    if (this.#waiting.length >= WAITING_MAX) this.settle(lease, units, false)
    else {
      this.#waiting.push({ lease, units })
      this.#events.waiting()
    }
  }

  /** The window they came from is over, or time has returned them. */
  private isTooLate(lease: Lease): boolean {
    const { monotonicMs, wallUs } = this.#parts
    return lease.isWorthless(monotonicMs(), wallUs())
  }
}

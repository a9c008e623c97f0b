/**
 * `coordination: leased`: a node draws units ahead, spends them without asking, and gives back what
 * it did not spend.
 *
 * How many depends on how fast they are spent here, and on the fleet: all nodes together hold at
 * most `maxStranded` of a limit. Where that is less than two units the store decides each call
 * itself, and only how much it granted is noted. What a call needs and no lease has is waited for,
 * by all calls of a counter together. Nothing is spent that was not drawn, nor after its lease.
 */
import type { CounterKey, PlannedTake } from '@sluice/core'
import type { Answer } from '../store.js'
import type { Here, HereOutcome, HereStats, NodeParts, Waited } from './here.js'
import { Lease, leaseOf } from './lease.js'
import { answerOf, Draw, type Waiter } from './lease-draw.js'
import { type Dryness, drynessOf, refuseDry } from './lease-dryness.js'
import { Holdings, started } from './lease-holdings.js'
import { Meter } from './lease-meter.js'
import { Meters } from './lease-meters.js'
import { Tallies } from './tally.js'

/** Below this a lease would save nothing. */
const UNITS_MIN = 2
/** Calls that wait for draws at once; the store decides others. */
const WAITING_MAX = 100_000

type Told = Exclude<Answer, string>

export class Leases implements Here {
  readonly #parts: NodeParts
  readonly #tallies = new Tallies()
  readonly #meters = new Meters()
  readonly #holdings: Holdings
  readonly #onLate = (draw: Draw, answer: Answer) => this.late(draw, answer)
  /** Both move when what was drawn before must not be spent any more. */
  #rules = 0
  #resets = 0
  #waiting = 0
  #isClosed = false

  constructor(parts: NodeParts) {
    this.#parts = parts
    this.#holdings = new Holdings(parts)
  }

  get stats(): ReadonlyMap<string, HereStats> {
    return this.#tallies.all
  }

  take(take: PlannedTake): HereOutcome | Promise<Waited> | undefined {
    const { key, amount, of } = take
    if (amount === 0) return undefined
    const meter = this.#meters.find(key)
    if (meter === undefined) return undefined
    const nowMs = this.#parts.monotonicMs()
    const wallUs = this.#parts.wallUs()
    if (meter.of === of) {
      meter.usedMs = nowMs
      const { leases } = meter
      for (let i = 0; i < leases.length; i++) {
        const lease = leases[i]
        if (lease === undefined || lease.units < amount) continue
        if (!lease.isOver(nowMs, wallUs)) return lease.spend(amount, nowMs)
      }
    }
    return this.takeBeyond(take, meter, nowMs, wallUs)
  }

  /** The outcome must be the one that `take` made: it knows its lease. */
  putBack({ amount }: PlannedTake, outcome: HereOutcome): void {
    const lease = leaseOf(outcome)
    if (lease === undefined) return
    const { meter } = lease
    meter.tally.spent -= amount
    meter.tally.held += amount
    meter.unnote(amount)
    this.#holdings.putBack(lease, amount)
  }

  /** How much the store grants by itself is how much a lease would be worth. */
  learn({ key, of }: PlannedTake, answer: Answer): void {
    if (typeof answer === 'string' || answer.granted === 0 || this.#isClosed) return
    const nowMs = this.#parts.monotonicMs()
    let meter = this.#meters.find(key)
    if (meter === undefined) {
      meter = new Meter(key, of, this.#tallies.of(of.rule), nowMs)
      this.#meters.add(meter, nowMs)
    }
    meter.note(answer.granted, nowMs)
  }

  /** What a draw under way grants may have been taken before the reset: it is not given back. */
  forget(key: CounterKey): void {
    this.#resets += 1
    const meter = this.#meters.find(key)
    if (meter === undefined) return
    meter.resets += 1
    meter.dry = undefined
    this.#holdings.forgetAll(meter)
    if (meter.draw !== undefined) this.answerAll(meter.draw, 'ask')
  }

  rulesChanged(): void {
    this.#rules += 1
    for (const meter of this.#holdings.busy) {
      this.#holdings.closeAll(meter)
      if (meter.draw !== undefined) this.answerAll(meter.draw, 'ask')
    }
  }

  /** Settles when the store has answered all that it was asked. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.rulesChanged()
    this.#holdings.stop()
    await this.#holdings.quiet()
  }

  /** What no lease can serve: waits for a draw, is refused here, or is left to the store. */
  private takeBeyond(
    take: PlannedTake,
    meter: Meter,
    nowMs: number,
    wallUs: number,
  ): HereOutcome | Promise<Waited> | undefined {
    const { of, amount } = take
    if (amount > of.immediate.capacity) return undefined
    if (this.#isClosed || this.#waiting >= WAITING_MAX) return undefined
    if (meter.of !== of) {
      if (meter.isBusy) return undefined
      meter.follow(of)
      meter.usedMs = nowMs
    }
    this.#holdings.expire(meter, nowMs, wallUs)
    const { draw, dry } = meter
    if (draw !== undefined) {
      return this.isCurrent(draw) ? this.join(draw.waiting, take, nowMs) : undefined
    }
    if (this.sizeOf(meter, nowMs) === 0) return undefined
    if (dry !== undefined && nowMs < dry.untilMs) {
      const refusal = refuseDry(take, dry, nowMs)
      if (refusal !== undefined || take.limit.maxWaitUs > 0) return refusal
    }
    if (!this.#holdings.hasRoomFor(meter)) return undefined
    const waiting: Waiter[] = []
    const waited = this.join(waiting, take, nowMs)
    this.send(meter, waiting, nowMs, wallUs)
    return waited
  }

  private join(waiting: Waiter[], take: PlannedTake, joinedMs: number): Promise<Waited> {
    this.#waiting += 1
    return new Promise((resolve) => void waiting.push({ take, joinedMs, resolve }))
  }

  /** Asks for what waiting calls need and, beyond that, for as much as may be held. */
  private send(meter: Meter, waiting: Waiter[], nowMs: number, wallUs: number): void {
    const { store, deadlineMs } = this.#parts
    const spare = Math.max(0, this.sizeOf(meter, nowMs) - meter.outstanding)
    const era = { rules: this.#rules, resets: this.#resets, ownResets: meter.resets }
    const draw = new Draw(meter, waiting, spare, era, { nowMs, wallUs, deadlineMs }, this.#onLate)
    meter.draw = draw
    meter.tally.draws += 1
    this.#holdings.asked(meter)
    started(() => store.take([[draw.take]], draw)).then(
      (answers) => this.answered(draw, answerOf(answers)),
      () => this.answered(draw, 'unknown'),
    )
  }

  private answered(draw: Draw, answer: Answer): void {
    const { meter } = draw
    meter.draw = undefined
    if (typeof answer === 'string') {
      this.answerAll(draw, 'silent')
      const late = draw.silent()
      if (late !== undefined) this.late(draw, late)
    } else if (this.isCurrent(draw)) this.granted(draw, answer)
    else this.discard(draw, answer)
    this.#holdings.answered(meter)
  }

  /** What is over when it arrives serves nobody. */
  private granted(draw: Draw, told: Told): void {
    const { meter } = draw
    const nowMs = this.#parts.monotonicMs()
    const wallUs = this.#parts.wallUs()
    const lease = this.receive(draw, told)
    const isFull = told.granted === draw.take.amount
    meter.dry = isFull ? undefined : drynessOf(draw, told)
    if (lease.isOver(nowMs, wallUs)) {
      this.#holdings.close(lease)
      this.answerAll(draw, 'ask')
      return
    }
    this.serve(draw, lease, nowMs, isFull)
    if (told.granted > 0) this.#holdings.keep(lease, draw.spare)
    // Some came after it was sent. A counter that could not give all is not asked for them again.
    if (isFull && draw.waiting.length > 0) this.send(meter, draw.waiting, nowMs, wallUs)
    else this.refuseAll(draw, meter.dry, nowMs)
  }

  /** Those that a short grant left over: the store has just said what it would say to each. */
  private refuseAll(draw: Draw, dry: Dryness | undefined, nowMs: number): void {
    const { waiting } = draw
    this.#waiting -= waiting.length
    draw.waiting = []
    for (const { take, resolve } of waiting) {
      resolve((dry === undefined ? undefined : refuseDry(take, dry, nowMs)) ?? 'ask')
    }
  }

  /**
   * In the order of their coming. A small call does not pass a large one that the next draw will
   * serve; where there is none it does, as in the store.
   */
  private serve(draw: Draw, lease: Lease, nowMs: number, isFull: boolean): void {
    const left: Waiter[] = []
    for (const waiter of draw.waiting) {
      const { take, resolve } = waiter
      const hasTurn = lease.units >= take.amount && (left.length === 0 || !isFull)
      if (hasTurn) resolve(lease.spend(take.amount, nowMs))
      else left.push(waiter)
    }
    this.#waiting -= draw.waiting.length - left.length
    draw.waiting = left
  }

  /**
   * An answer to calls that did not wait for it. As much as may still be held becomes a lease,
   * which counts from its sending as any other.
   */
  private late(draw: Draw, told: Answer): void {
    if (typeof told === 'string' || told.granted === 0) return
    const { meter, of } = draw
    const isKnown = this.#meters.find(meter.key) === meter && meter.of === of
    if (!isKnown || !this.isCurrent(draw)) {
      this.discard(draw, told)
      return
    }
    const room = this.#holdings.mostOf(of) - meter.outstanding
    const lease = this.receive(draw, told)
    const isOver = lease.isOver(this.#parts.monotonicMs(), this.#parts.wallUs())
    if (isOver || room < UNITS_MIN) this.#holdings.close(lease)
    else this.#holdings.keep(lease, room)
  }

  /** Nothing of it is spent: other rules are in force, or the counter was reset. */
  private discard(draw: Draw, told: Told): void {
    const { meter, era } = draw
    const lease = this.receive(draw, told)
    // Of a counter that is no longer remembered it is not known which one was reset.
    const isKnown = this.#meters.find(meter.key) === meter
    const isReset = isKnown ? era.ownResets !== meter.resets : era.resets !== this.#resets
    if (isReset) this.#holdings.forget(lease)
    else this.#holdings.close(lease)
  }

  private receive(draw: Draw, told: Told): Lease {
    const { tally } = draw.meter
    tally.drawn += told.granted
    tally.held += told.granted
    return new Lease(draw, told)
  }

  /** Whether what this draw grants may be spent. */
  private isCurrent({ era, meter }: Draw): boolean {
    return era.rules === this.#rules && era.ownResets === meter.resets
  }

  private answerAll(draw: Draw, waited: 'ask' | 'silent'): void {
    this.#waiting -= draw.waiting.length
    for (const { resolve } of draw.waiting.splice(0)) resolve(waited)
  }

  /** Units that the leases of a counter may hold here now; 0: not worth one. */
  private sizeOf(meter: Meter, nowMs: number): number {
    const units = Math.min(this.#holdings.mostOf(meter.of), meter.spentLately(nowMs))
    return units >= UNITS_MIN ? units : 0
  }
}

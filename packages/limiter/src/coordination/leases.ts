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
import type { Answer, Silence } from '../store.js'
import type { Here, HereOutcome, HereStats, NodeParts, Waited } from './here.js'
import { Lease, leaseOf } from './lease.js'
import { answerOf, Draw, type Sending, type Waiter } from './lease-draw.js'
import { type Dryness, drynessOf, refuseDry } from './lease-dryness.js'
import { Holdings, IDLE_SHARE, started } from './lease-holdings.js'
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

  take(take: PlannedTake, waitMs: number): HereOutcome | Promise<Waited> | undefined {
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
    return this.takeBeyond(take, meter, { nowMs, wallUs, deadlineMs: waitMs })
  }

  isReady({ key, amount, of }: PlannedTake): boolean {
    const meter = this.#meters.find(key)
    if (meter === undefined || meter.of !== of || this.#isClosed) return false
    const isHeld = meter.leases.some(({ units }) => units >= amount)
    return isHeld || this.sizeOf(meter, this.#parts.monotonicMs()) > 0
  }

  /** Why a call would be refused here though the store has a little; else it knows better. */
  look(take: PlannedTake): (HereOutcome & { readonly state: unknown }) | undefined {
    const { key, amount, of } = take
    if (amount === 0 || amount > of.immediate.capacity) return undefined
    const meter = this.#meters.find(key)
    if (meter?.dry === undefined || meter.of !== of) return undefined
    const nowMs = this.#parts.monotonicMs()
    if (nowMs >= meter.dry.untilMs || this.sizeOf(meter, nowMs) === 0) return undefined
    if (meter.leases.some(({ units }) => units >= amount)) return undefined
    const refusal = refuseDry(take, meter.dry, nowMs)
    return refusal === undefined ? undefined : { ...refusal, state: meter.dry.state }
  }

  gaveBack(key: CounterKey): void {
    const meter = this.#meters.find(key)
    if (meter !== undefined) meter.dry = undefined
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

  /** Settles when the store has answered all that it was asked. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const meter of this.#holdings.busy) {
      this.#holdings.closeAll(meter)
      if (meter.draw !== undefined) this.answerAll(meter.draw, 'ask')
    }
    this.#holdings.stop()
    await this.#holdings.quiet()
  }

  /** What no lease can serve: waits for a draw, is refused here, or is left to the store. */
  private takeBeyond(
    take: PlannedTake,
    meter: Meter,
    sending: Sending,
  ): HereOutcome | Promise<Waited> | undefined {
    const { of, amount } = take
    const { nowMs, wallUs } = sending
    if (amount > of.immediate.capacity) return undefined
    if (this.#isClosed || this.#waiting >= WAITING_MAX) return undefined
    if (meter.of !== of) {
      if (meter.isBusy) return undefined
      meter.follow(of)
      meter.usedMs = nowMs
    }
    this.#holdings.expire(meter, nowMs, wallUs)
    const { draw, dry } = meter
    if (draw !== undefined) return this.join(draw, take, sending)
    if (this.sizeOf(meter, nowMs) === 0) return undefined
    if (dry !== undefined && nowMs < dry.untilMs) {
      const refusal = refuseDry(take, dry, nowMs)
      if (refusal !== undefined || take.limit.maxWaitUs > 0) return refusal
    }
    if (!this.#holdings.hasRoomFor(meter)) return undefined
    return this.draw(meter, take, sending)
  }

  /** Waits for a draw that is under way, if it will do for this call too. */
  private join(
    draw: Draw,
    take: PlannedTake,
    { deadlineMs }: Sending,
  ): Promise<Waited> | undefined {
    if (deadlineMs === 0 || !this.isCurrent(draw)) return undefined
    let isIn = false
    const waited = new Promise<Waited>((resolve) => {
      isIn = draw.join({ take, resolve }, deadlineMs)
    })
    if (!isIn) return undefined
    this.#waiting += 1
    return waited
  }

  /** A call that may not wait draws for those that come after it. */
  private draw(meter: Meter, take: PlannedTake, sending: Sending): Promise<Waited> | undefined {
    if (sending.deadlineMs === 0) {
      this.send(meter, [], { ...sending, deadlineMs: this.#parts.deadlineMs })
      return undefined
    }
    this.#waiting += 1
    return new Promise((resolve) => this.send(meter, [{ take, resolve }], sending))
  }

  /** Asks for what waiting calls need and, beyond that, for as much as may be held. */
  private send(meter: Meter, waiting: Waiter[], sending: Sending): void {
    const { store } = this.#parts
    const spare = Math.max(0, this.sizeOf(meter, sending.nowMs) - meter.outstanding)
    if (waiting.length === 0 && spare < UNITS_MIN) return
    const era = { resets: this.#resets, ownResets: meter.resets }
    const draw = new Draw(meter, waiting, spare, era, sending, this.#onLate)
    meter.draw = draw
    meter.tally.draws += 1
    this.#holdings.asked(meter)
    started(async () => answerOf(await store.take([[draw.take]], draw)))
      .then(
        (answer) => this.answered(draw, answer),
        () => this.answered(draw, 'unknown'),
      )
      // Of an answer that cannot be read nothing is spent.
      .catch(() => this.silence(draw, 'unknown'))
  }

  private answered(draw: Draw, answer: Answer): void {
    const { meter } = draw
    meter.draw = undefined
    try {
      if (typeof answer === 'string') {
        this.silence(draw, answer)
        const late = draw.silent()
        if (late !== undefined) this.late(draw, late)
        return
      }
      this.#parts.answering()
      if (this.isCurrent(draw)) this.granted(draw, answer)
      else this.discard(draw, answer)
    } finally {
      this.#holdings.answered(meter)
    }
  }

  /** Each call is decided without the store. If the draw has run, those let pass have spent it. */
  private silence(draw: Draw, silence: Silence): void {
    const { waiting } = draw
    this.#waiting -= waiting.length
    draw.waiting = []
    for (const { take, resolve } of waiting) {
      resolve({ silence, admitted: () => draw.letPass(take.amount) })
    }
  }

  /** What is over when it arrives serves nobody. */
  private granted(draw: Draw, told: Told): void {
    const { meter } = draw
    const nowMs = this.#parts.monotonicMs()
    const wallUs = this.#parts.wallUs()
    const lease = this.receive(draw, told)
    const isFull = told.granted === draw.take.amount
    const dry = isFull ? undefined : drynessOf(draw, told)
    // What other calls only hold may be there again at once: that is not remembered.
    const isHeld = told.held === true
    meter.dry = isHeld ? undefined : dry
    if (lease.isOver(nowMs, wallUs)) {
      this.#holdings.close(lease)
      this.answerAll(draw, 'ask')
      return
    }
    this.serve(draw, lease, nowMs)
    if (told.granted > 0) this.#holdings.keep(lease, draw.spare)
    this.refuseAll(draw, isHeld ? dry : meter.dry, nowMs)
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

  /** In the order of their coming; a small call passes a large one that has to go without. */
  private serve(draw: Draw, lease: Lease, nowMs: number): void {
    const left: Waiter[] = []
    for (const waiter of draw.waiting) {
      const { take, resolve } = waiter
      if (lease.units >= take.amount) resolve(lease.spend(take.amount, nowMs))
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
    const lease = new Lease(draw, told)
    draw.became(lease)
    return lease
  }

  /** Whether what this draw grants may be spent. */
  private isCurrent({ era, meter }: Draw): boolean {
    return !this.#isClosed && era.ownResets === meter.resets
  }

  private answerAll(draw: Draw, waited: 'ask'): void {
    this.#waiting -= draw.waiting.length
    for (const { resolve } of draw.waiting.splice(0)) resolve(waited)
  }

  /**
   * Units that the leases of a counter may hold here now; 0: not worth one, also where it would
   * be given back as idle before two of them were spent.
   */
  private sizeOf(meter: Meter, nowMs: number): number {
    const spent = meter.spentLately(nowMs)
    if (spent < UNITS_MIN * IDLE_SHARE) return 0
    const units = Math.min(this.#holdings.mostOf(meter.of), spent)
    return units >= UNITS_MIN ? units : 0
  }
}

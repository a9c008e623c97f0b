/**
 * `coordination: leased`: a node draws units ahead, spends them without the store, and returns what
 * it did not spend.
 *
 * The size of a lease follows from how fast units are spent on this node and from the fleet: all
 * nodes together hold at most `maxStranded` of a limit. If that is less than two units, the store
 * decides each call itself, and this node only records the rate. A call that no lease can serve
 * waits for a draw, which all waiting calls of a counter share. Nothing is spent that was not
 * drawn, nor after its lease has expired.
 */
import type { CounterKey, PlannedTake } from '@sluice/core'
import type { Answer, Silence } from '../../store.js'
import type {
  NodeDecider,
  NodeOutcome,
  CoordinationStats,
  CoordinationDeps,
  DrawResult,
} from '../node-decider.js'
import { Lease, leaseOf } from './lease.js'
import { answerOf, Draw, type SendTimes, type Waiter } from './lease-draw.js'
import { type Exhaustion, exhaustionOf, refuseExhausted } from './lease-exhaustion.js'
import { Holdings, IDLE_SHARE, runAsync } from './lease-holdings.js'
import { LeasedCounter } from './leased-counter.js'
import { LeasedCounters } from './leased-counters.js'
import { StatsByRule } from '../coordination-stats.js'

/** A smaller lease would save nothing. */
const UNITS_MIN = 2
/** The most calls that wait for draws at once; the store decides others. */
const WAITING_MAX = 100_000

type StoreOutcome = Exclude<Answer, string>

export class Leases implements NodeDecider {
  readonly #deps: CoordinationDeps
  readonly #statsByRule = new StatsByRule()
  readonly #counters = new LeasedCounters()
  readonly #holdings: Holdings
  readonly #onLate = (draw: Draw, answer: Answer) => this.onLateAnswer(draw, answer)
  #resets = 0
  #waiting = 0
  #isClosed = false

  constructor(deps: CoordinationDeps) {
    this.#deps = deps
    this.#holdings = new Holdings(deps)
  }

  get stats(): ReadonlyMap<string, CoordinationStats> {
    return this.#statsByRule.all
  }

  take(take: PlannedTake, waitMs: number): NodeOutcome | Promise<DrawResult> | undefined {
    const { key, amount, compiled } = take
    if (amount === 0 && take.gate !== true) return undefined
    const counter = this.#counters.find(key)
    if (counter === undefined) return undefined
    const nowMs = this.#deps.monotonicMs()
    const wallUs = this.#deps.wallUs()
    if (counter.compiled === compiled) {
      counter.usedMs = nowMs
      const { leases } = counter
      for (let i = 0; i < leases.length; i++) {
        const lease = leases[i]
        if (lease === undefined || lease.units < amount || lease.units === 0) continue
        if (!lease.isOver(nowMs, wallUs)) return lease.spend(amount, nowMs)
      }
    }
    // A gate that no lease lets pass goes to the store, which also counts what other nodes hold.
    if (amount === 0) return undefined
    return this.takeWithoutLease(take, counter, { nowMs, wallUs, deadlineMs: waitMs })
  }

  isReady({ key, amount, compiled }: PlannedTake): boolean {
    const counter = this.#counters.find(key)
    if (counter === undefined || counter.compiled !== compiled || this.#isClosed) return false
    const isHeld = counter.leases.some(({ units }) => units >= Math.max(1, amount))
    return isHeld || (amount > 0 && this.leaseSize(counter, this.#deps.monotonicMs()) > 0)
  }

  /** The refusal by an exhausted counter; undefined if the store knows better. */
  peek(take: PlannedTake): (NodeOutcome & { readonly state: unknown }) | undefined {
    const { key, amount, compiled } = take
    if (amount === 0 || amount > compiled.immediate.capacity) return undefined
    const counter = this.#counters.find(key)
    if (counter?.exhaustion === undefined || counter.compiled !== compiled) return undefined
    const nowMs = this.#deps.monotonicMs()
    if (nowMs >= counter.exhaustion.untilMs || this.leaseSize(counter, nowMs) === 0)
      return undefined
    if (counter.leases.some(({ units }) => units >= amount)) return undefined
    const refusal = refuseExhausted(take, counter.exhaustion, nowMs)
    return refusal === undefined ? undefined : { ...refusal, state: counter.exhaustion.state }
  }

  invalidate(key: CounterKey): void {
    const counter = this.#counters.find(key)
    if (counter !== undefined) counter.exhaustion = undefined
  }

  /** The outcome must be the one that `take` returned: it references its lease. */
  putBack({ amount }: PlannedTake, outcome: NodeOutcome): void {
    const lease = leaseOf(outcome)
    if (lease === undefined) return
    const { counter } = lease
    counter.stats.spent -= amount
    counter.stats.held += amount
    counter.unrecordSpent(amount)
    this.#holdings.putBack(lease, amount)
  }

  /** Records what the store granted: the rate decides how large a lease would be. */
  learn({ key, compiled }: PlannedTake, answer: Answer): void {
    if (typeof answer === 'string' || answer.granted === 0 || this.#isClosed) return
    const nowMs = this.#deps.monotonicMs()
    let counter = this.#counters.find(key)
    if (counter === undefined) {
      counter = new LeasedCounter(key, compiled, this.#statsByRule.get(compiled.rule), nowMs)
      this.#counters.add(counter, nowMs)
    }
    counter.recordSpent(answer.granted, nowMs)
  }

  /** A running draw may have been granted before the reset, so its units are not returned. */
  forget(key: CounterKey): void {
    this.#resets += 1
    const counter = this.#counters.find(key)
    if (counter === undefined) return
    counter.resets += 1
    counter.exhaustion = undefined
    this.#holdings.forgetAll(counter)
    if (counter.draw !== undefined) this.answerAll(counter.draw, 'store')
  }

  /** Resolves when the store has answered all requests. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const counter of this.#holdings.busy) {
      this.#holdings.closeAll(counter)
      if (counter.draw !== undefined) this.answerAll(counter.draw, 'store')
    }
    this.#holdings.stop()
    await this.#holdings.whenQuiet()
  }

  /**
   * Decides a call that no lease can serve: it waits for a draw, is refused, or goes to the store.
   */
  private takeWithoutLease(
    take: PlannedTake,
    counter: LeasedCounter,
    times: SendTimes,
  ): NodeOutcome | Promise<DrawResult> | undefined {
    const { compiled, amount } = take
    const { nowMs, wallUs } = times
    if (amount > compiled.immediate.capacity) return undefined
    if (this.#isClosed || this.#waiting >= WAITING_MAX) return undefined
    if (counter.compiled !== compiled) {
      if (counter.isBusy) return undefined
      counter.rebind(compiled)
      counter.usedMs = nowMs
    }
    this.#holdings.expire(counter, nowMs, wallUs)
    const { draw, exhaustion } = counter
    if (draw !== undefined) return this.join(draw, take, times)
    if (this.leaseSize(counter, nowMs) === 0) return undefined
    if (exhaustion !== undefined && nowMs < exhaustion.untilMs) {
      const refusal = refuseExhausted(take, exhaustion, nowMs)
      if (refusal !== undefined || take.limit.maxWaitUs > 0) return refusal
    }
    if (!this.#holdings.hasRoomFor(counter)) return undefined
    return this.draw(counter, take, times)
  }

  /** Waits for a running draw if it also covers this call. */
  private join(
    draw: Draw,
    take: PlannedTake,
    { deadlineMs }: SendTimes,
  ): Promise<DrawResult> | undefined {
    if (deadlineMs === 0 || !this.isCurrent(draw)) return undefined
    let isIn = false
    const result = new Promise<DrawResult>((resolve) => {
      isIn = draw.join({ take, resolve }, deadlineMs)
    })
    if (!isIn) return undefined
    this.#waiting += 1
    return result
  }

  /** Draws for this call, or, if it may not wait, for later ones. */
  private draw(
    counter: LeasedCounter,
    take: PlannedTake,
    times: SendTimes,
  ): Promise<DrawResult> | undefined {
    if (times.deadlineMs === 0) {
      this.send(counter, [], { ...times, deadlineMs: this.#deps.deadlineMs })
      return undefined
    }
    this.#waiting += 1
    return new Promise((resolve) => this.send(counter, [{ take, resolve }], times))
  }

  /** Requests what waiting calls need, plus as much as may be held. */
  private send(counter: LeasedCounter, waiting: Waiter[], times: SendTimes): void {
    const { store } = this.#deps
    const spare = Math.max(0, this.leaseSize(counter, times.nowMs) - counter.outstanding)
    if (waiting.length === 0 && spare < UNITS_MIN) return
    const resetCounts = { resets: this.#resets, ownResets: counter.resets }
    const draw = new Draw(counter, waiting, spare, resetCounts, times, this.#onLate)
    counter.draw = draw
    counter.stats.draws += 1
    this.#holdings.beginRequest(counter)
    runAsync(async () => answerOf(await store.take([[draw.take]], draw)))
      .then(
        (answer) => this.onAnswer(draw, answer),
        () => this.onAnswer(draw, 'unknown'),
      )
      // An answer that cannot be read counts as unanswered.
      .catch(() => this.onSilence(draw, 'unknown'))
  }

  private onAnswer(draw: Draw, answer: Answer): void {
    const { counter } = draw
    counter.draw = undefined
    try {
      if (typeof answer === 'string') {
        this.onSilence(draw, answer)
        const late = draw.onSilence()
        if (late !== undefined) this.onLateAnswer(draw, late)
        return
      }
      this.#deps.onStoreAnswer()
      if (this.isCurrent(draw)) this.onGrant(draw, answer)
      else this.discard(draw, answer)
    } finally {
      this.#holdings.endRequest(counter)
    }
  }

  /**
   * Lets each waiting call be decided without the store. If the draw has run, admitted calls have
   * spent it.
   */
  private onSilence(draw: Draw, silence: Silence): void {
    const { waiting } = draw
    this.#waiting -= waiting.length
    draw.waiting = []
    for (const { take, resolve } of waiting) {
      resolve({ silence, onAdmitted: () => draw.onAdmitted(take.amount) })
    }
  }

  /** Serves waiting calls from a grant, unless the lease has already expired. */
  private onGrant(draw: Draw, answer: StoreOutcome): void {
    const { counter } = draw
    const nowMs = this.#deps.monotonicMs()
    const wallUs = this.#deps.wallUs()
    const lease = this.receive(draw, answer)
    const isFull = answer.granted === draw.take.amount
    const exhaustion = isFull ? undefined : exhaustionOf(draw, answer)
    // Units that other calls only hold may be free again at once, so this is not remembered.
    const isHeld = answer.held === true
    counter.exhaustion = isHeld ? undefined : exhaustion
    if (lease.isOver(nowMs, wallUs)) {
      this.#holdings.close(lease)
      this.answerAll(draw, 'store')
      return
    }
    this.serve(draw, lease, nowMs)
    if (answer.granted > 0) this.#holdings.hold(lease, draw.spare)
    this.refuseAll(draw, isHeld ? exhaustion : counter.exhaustion, nowMs)
  }

  /** Refuses the calls that a short grant could not serve, by the state in the store's answer. */
  private refuseAll(draw: Draw, exhaustion: Exhaustion | undefined, nowMs: number): void {
    const { waiting } = draw
    this.#waiting -= waiting.length
    draw.waiting = []
    for (const { take, resolve } of waiting) {
      resolve(
        (exhaustion === undefined ? undefined : refuseExhausted(take, exhaustion, nowMs)) ??
          'store',
      )
    }
  }

  /**
   * Serves waiting calls in order of arrival; a small call passes a large one that does not fit.
   */
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
   * Handles an answer after the deadline. As much as may still be held becomes a lease, whose
   * lifetime counts from its sending as usual.
   */
  private onLateAnswer(draw: Draw, answer: Answer): void {
    if (typeof answer === 'string' || answer.granted === 0) return
    const { counter, compiled } = draw
    const isKnown = this.#counters.find(counter.key) === counter && counter.compiled === compiled
    if (!isKnown || !this.isCurrent(draw)) {
      this.discard(draw, answer)
      return
    }
    const room = this.#holdings.maxHeld(compiled) - counter.outstanding
    const lease = this.receive(draw, answer)
    const isOver = lease.isOver(this.#deps.monotonicMs(), this.#deps.wallUs())
    if (isOver || room < UNITS_MIN) this.#holdings.close(lease)
    else this.#holdings.hold(lease, room)
  }

  /** Spends nothing of a grant, because other rules are active or the counter was reset. */
  private discard(draw: Draw, answer: StoreOutcome): void {
    const { counter, resetCounts } = draw
    const lease = this.receive(draw, answer)
    // For a dropped counter it is unknown which counter was reset.
    const isKnown = this.#counters.find(counter.key) === counter
    const isReset = isKnown
      ? resetCounts.ownResets !== counter.resets
      : resetCounts.resets !== this.#resets
    if (isReset) this.#holdings.forget(lease)
    else this.#holdings.close(lease)
  }

  private receive(draw: Draw, answer: StoreOutcome): Lease {
    const { stats } = draw.counter
    stats.drawn += answer.granted
    stats.held += answer.granted
    const lease = new Lease(draw, answer)
    draw.onGranted(lease)
    return lease
  }

  /** Whether the grant of this draw may be spent. */
  private isCurrent({ resetCounts, counter }: Draw): boolean {
    return !this.#isClosed && resetCounts.ownResets === counter.resets
  }

  private answerAll(draw: Draw, result: 'store'): void {
    this.#waiting -= draw.waiting.length
    for (const { resolve } of draw.waiting.splice(0)) resolve(result)
  }

  /**
   * Units that the leases of a counter may hold now; 0 if a lease is not worth it, also because it
   * would be returned as idle before two of its units were spent.
   */
  private leaseSize(counter: LeasedCounter, nowMs: number): number {
    const spent = counter.spentLately(nowMs)
    if (spent < UNITS_MIN * IDLE_SHARE) return 0
    const units = Math.min(this.#holdings.maxHeld(counter.compiled), spent)
    return units >= UNITS_MIN ? units : 0
  }
}

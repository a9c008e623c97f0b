/**
 * Decides one call on a Redis Cluster, where a script sees one slot only.
 *
 * All slots decide in parallel, so most calls need one round trip. If one refuses, the units that
 * the others took are given back. A refusal caused by units that another call only holds (see
 * hold-marks.ts) is not final: the call tries again, slot by slot in a fixed order, and keeps what
 * it has while it waits for the next. Because all calls wait in the same order, and a first attempt
 * never waits, one of several calls that hold each other's units always makes progress.
 */
import { type CounterKey, isBlock, isChargedOnRefusal, type Take } from '@sluice/core'
import type { Answer, Give, Groups } from '../../store.js'
import type { Expirable } from './deadlines.js'
import {
  type LastingMarks,
  markOf,
  withMarksBeforeBlocks,
  withoutMarksBeforeBlocks,
} from './hold-marks.js'
import {
  placesBySlot,
  firstPlaces,
  holdingPlaces,
  isOneScript,
  type TakePlaces,
  pick,
} from './take-places.js'
import { type Attempt, type GiveBack, isRefusal, SlotAnswers } from './slot-answers.js'
import type { ShardOf } from './partition-op.js'
import { TakeOp, TakeRequest } from './take-request.js'

/** The first pause before a slot is tried again; each pause is twice the one before. */
const PAUSE_MS = 1
const PAUSE_MAX_MS = 16
/** With less time left than this nothing is tried again. */
const LEAST_LEFT_MS = 2

export interface ClusterTakeDeps {
  readonly nowMs: () => number
  /** Whether a slot is migrating, so that a script may use only one counter. */
  readonly isSingle: (partition: number) => boolean
  readonly shardOf: ShardOf
  /** Sends the operations of an attempt. */
  readonly dispatch: (attempt: TakeRequest, groups: Groups<Take>) => void
  /** Gives back, in this order, what a refused call took. Resolves when that is done or lost. */
  readonly undo: (gives: readonly GiveBack[]) => Promise<void>
  /** Removes the marks of a decided call. */
  readonly unmark: (gives: readonly Give[]) => void
  /** A call was refused only because of units that other calls hold. */
  readonly onHeldRefusal: () => void
  /** Counters that are not worth trying again at once. */
  readonly lastingMarks: LastingMarks
}

export interface ClusterTakeOptions {
  readonly groups: Groups<Take>
  readonly states: boolean
  readonly deadlineMs: number
  readonly deadlineAtMs: number
  readonly onLate: ((answers: Groups<Answer>) => void) | undefined
  readonly resolve: (answers: Groups<Answer>) => void
}

export class ClusterTake implements Expirable {
  readonly deadlineAtMs: number
  isAnswered = false
  readonly #deps: ClusterTakeDeps
  readonly #options: ClusterTakeOptions
  /** Every take of the call. */
  readonly #all: TakePlaces
  /** Whether one script sees the whole call. */
  readonly #isWhole: boolean
  /** Whether several scripts decide the enforced limits, so that units may be taken in vain. */
  readonly #isSpread: boolean
  readonly #answers: SlotAnswers
  #running: TakeRequest | undefined
  #tripMs = 0
  #pauseMs = PAUSE_MS
  #timer: ReturnType<typeof setTimeout> | undefined
  /** Whether the answer was silence. A late answer is then passed on to the caller of the store. */
  #isSilent = false

  constructor(deps: ClusterTakeDeps, options: ClusterTakeOptions) {
    const { groups, deadlineAtMs, deadlineMs } = options
    this.#deps = deps
    this.#options = options
    this.deadlineAtMs = deadlineAtMs
    this.#all = groups.map((takes) => [...takes.keys()])
    this.#isWhole = isOneScript(groups, deps.isSingle, deps.shardOf)
    this.#isSpread = !this.#isWhole && !isOneScript(groups.slice(0, 1), deps.isSingle, deps.shardOf)
    this.#answers = new SlotAnswers(groups, deadlineMs)
  }

  start(): void {
    const { groups } = this.#options
    const places = this.#isWhole ? this.#all : firstPlaces(groups, this.#isSpread)
    if (places.every((indices) => indices.length === 0)) {
      this.admit()
      return
    }
    this.attempt(places)
  }

  private attempt(places: TakePlaces): void {
    this.sendAttempt({ places, verb: 'take', marks: this.marksAtFirst() }, (isSilent) => {
      if (isSilent) this.answerSilence()
      else if (!this.#answers.isPassed()) this.reconsider()
      else {
        const rest = this.#answers.openEnforced()
        if (rest.length === 0) this.admit()
        else this.attempt(this.#all.map((_, g) => (g === 0 ? rest : [])))
      }
    })
  }

  /** Marks decide whether a block begins, so a call with one reads them at once. */
  private marksAtFirst(): Attempt['marks'] {
    if (this.#isSpread) return 'set'
    return this.#options.groups[0]?.some(({ limit }) => isBlock(limit)) === true ? 'read' : 'none'
  }

  /**
   * The deadline has passed: a running attempt is answered with silence, a waiting call is refused.
   */
  expire(): void {
    if (this.isAnswered) return
    if (this.#running === undefined) this.refuse()
    else this.#running.expire()
  }

  private sendAttempt(attempt: Attempt, then: (isSilent: boolean) => void): void {
    const { places, verb, marks } = attempt
    const { groups, states } = this.#options
    const attemptTakes: (readonly Take[])[] = groups.map((takes, g) => pick(takes, places[g]))
    if (marks !== 'none') {
      const calls = marks === 'set' ? 1 : 0
      const holding = pick(groups[0] ?? [], holdingPlaces(groups[0], places[0]))
      attemptTakes.push(holding.map(({ key, amount }) => markOf(key, amount > 0 ? calls : 0)))
    }
    const [limits = []] = attemptTakes
    const enforced = verb === 'take' ? withMarksBeforeBlocks(limits) : limits
    attemptTakes[0] = enforced
    const withoutMarks = ([first = [], ...others]: Groups<Answer>) => [
      withoutMarksBeforeBlocks(enforced, first),
      ...others,
    ]
    const sentMs = this.#deps.nowMs()
    let known: Groups<Answer> = []
    const running = new TakeRequest({
      takeOp: new TakeOp(verb, attemptTakes, states),
      deadlineAtMs: this.deadlineAtMs,
      onLate: (answers) => this.onLate(attempt, withoutMarks(answers), known),
      resolve: (answers) => {
        known = withoutMarks(answers)
        this.#running = undefined
        this.#tripMs = this.#deps.nowMs() - sentMs
        then(this.#answers.record(attempt, known))
      },
    })
    this.#running = running
    this.#deps.dispatch(running, attemptTakes)
  }

  /** An attempt was answered in full after its deadline. `known` is what was answered in time. */
  private onLate(attempt: Attempt, answers: Groups<Answer>, known: Groups<Answer>): void {
    this.#answers.record(attempt, answers, known)
    if (this.#isSilent) {
      this.#options.onLate?.(this.#answers.silentAnswers())
      this.#deps.unmark(this.#answers.takeMarks())
    } else if (attempt.verb === 'take' && (attempt.places[0]?.length ?? 0) > 0) {
      void this.undo(attempt.places, true)
    }
  }

  /** Tries again after a refusal by held units while there is time; any other refusal is final. */
  private reconsider(): void {
    const isCharged = this.#options.groups[0]?.some(isChargedOnRefusal) === true
    const verdict = this.#answers.verdict(this.#all[0] ?? [])
    if (verdict === 'stands' || !this.hasTime(0) || !this.mayRetry()) this.refuse()
    else if (!isCharged) this.attemptInOrder()
    else if (verdict === 'held') this.refuse()
    else this.peekMarks()
  }

  /** Whether none of the counters that refused have marks that outlasted another call. */
  private mayRetry(): boolean {
    const { lastingMarks, nowMs } = this.#deps
    const atMs = nowMs()
    return this.refusing().every((key) => lastingMarks.mayRetry(key, atMs))
  }

  /** The enforced counters that refused the call. */
  private refusing(): readonly CounterKey[] {
    const [takes = []] = this.#options.groups
    return takes.filter((_, i) => this.#answers.hasRefused([i])).map(({ key }) => key)
  }

  /** The refusal is charged already. Only whether held units caused it is still to be learnt. */
  private peekMarks(): void {
    const before = this.#answers.enforcedAnswers()
    const places = this.#all.map((indices, g) => (g === 0 ? indices : []))
    this.sendAttempt({ places, verb: 'peek', marks: 'read' }, () => {
      this.#answers.restore(before)
      this.refuse()
    })
  }

  private hasTime(pauseMs: number): boolean {
    const leftMs = this.deadlineAtMs - this.#deps.nowMs() - pauseMs
    return leftMs >= Math.max(LEAST_LEFT_MS, this.#tripMs)
  }

  /** Gives back everything, then tries slot by slot. */
  private attemptInOrder(): void {
    const undone = this.undo(this.#all, false)
    if (this.#isWhole) this.attemptNext([this.#all], 0)
    else if (!this.#isSpread)
      this.attemptNext(placesBySlot(this.#options.groups, this.#deps.shardOf), 0)
    else this.peekInOrder(placesBySlot(this.#options.groups, this.#deps.shardOf), 0, undone)
  }

  /** Peeks whether the slots from `index` on have room, and continues in order if they have. */
  private peekInOrder(slots: readonly TakePlaces[], index: number, undone: Promise<void>): void {
    const rest = slots.slice(index).flatMap(([indices = []]) => indices)
    const enforced = rest.toSorted((a, b) => a - b)
    const places = this.#all.map((_, g) => (g === 0 ? enforced : []))
    const before = this.#answers.enforcedAnswers()
    this.sendAttempt({ places, verb: 'peek', marks: 'read' }, (isSilent) => {
      if (isSilent) this.onUnanswered(before)
      else if (this.#answers.hasRefused(enforced)) {
        const over = this.#answers.blocksToBegin(enforced)
        const again = () => this.peekInOrder(slots, index, undone)
        if (over.length > 0) this.beginBlocks(over, again)
        else this.wait(enforced, again)
      } else {
        void undone.then(() => {
          if (!this.isAnswered) this.attemptNext(slots, index)
        })
      }
    })
  }

  /**
   * Takes from limits that refused a peek, so that their blocks begin. If they have room by then,
   * the call goes on.
   */
  private beginBlocks(over: readonly number[], again: () => void): void {
    const places = this.#all.map((_, g) => (g === 0 ? over : []))
    const before = this.#answers.enforcedAnswers()
    this.sendAttempt({ places, verb: 'take', marks: 'set' }, (isSilent) => {
      if (isSilent) {
        this.onUnanswered(before)
        return
      }
      const isOver = this.#answers.hasRefused(over)
      const undone = this.undo(places, false)
      if (isOver) this.wait(over, again)
      else if (this.hasTime(0)) {
        void undone.then(() => {
          if (!this.isAnswered) again()
        })
      } else {
        this.#answers.restore(before)
        this.refuse()
      }
    })
  }

  private attemptNext(slots: readonly TakePlaces[], index: number): void {
    const places = slots[index]
    if (places === undefined) {
      if (!this.#isWhole) this.#answers.forgetShadows()
      this.admit()
      return
    }
    const [enforced = []] = places
    const before = this.#answers.enforcedAnswers()
    this.sendAttempt(
      { places, verb: 'take', marks: this.#isSpread ? 'set' : 'read' },
      (isSilent) => {
        if (isSilent) this.onUnanswered(before)
        else if (!this.#answers.hasRefused(enforced)) {
          this.#pauseMs = PAUSE_MS
          this.attemptNext(slots, index + 1)
        } else {
          // A migrating slot has one script per counter, so some may have taken units.
          const undone = this.undo(places, false)
          this.wait(enforced, () => {
            if (this.#isSpread) this.peekInOrder(slots, index, undone)
            else this.attemptNext(slots, index)
          })
        }
      },
    )
  }

  /** A slot did not answer, so what refused the call before still does. */
  private onUnanswered(before: readonly (Answer | undefined)[]): void {
    this.#answers.restoreRefusal(before)
    this.refuse()
  }

  /** Waits until other calls may be decided, or refuses if that would not help or take too long. */
  private wait(enforced: readonly number[], then: () => void): void {
    const stands = this.#answers.verdict(enforced) === 'stands'
    if (stands || !this.hasTime(this.#pauseMs)) {
      const nowMs = this.#deps.nowMs()
      if (!stands) for (const key of this.refusing()) this.#deps.lastingMarks.add(key, nowMs)
      this.refuse()
      return
    }
    this.#timer = setTimeout(() => {
      if (!this.isAnswered) then()
    }, this.#pauseMs)
    this.#pauseMs = Math.min(PAUSE_MAX_MS, 2 * this.#pauseMs)
  }

  /** The call has passed: its units are no longer held but used. */
  private admit(): void {
    this.#deps.unmark(this.#answers.takeMarks())
    this.takeAdmitted(this.#answers.openUnheld(), () =>
      this.takeAdmitted(this.#answers.openBacks(), () => this.finishAdmitted()),
    )
  }

  /** Sends takes that only an admitted call reaches. */
  private takeAdmitted(places: TakePlaces | undefined, then: () => void): void {
    if (places === undefined) then()
    else this.sendAttempt({ places, verb: 'take', marks: 'none' }, then)
  }

  private finishAdmitted(): void {
    void this.#deps.undo(this.#answers.takeBackShadows())
    this.answer(this.#answers.admittedAnswers())
  }

  private refuse(): void {
    if (this.#answers.isPassed()) {
      this.answerSilence()
      return
    }
    void this.undo(this.#all, true)
    const places = this.#answers.openPlaces()
    if (places === undefined || !this.hasTime(0)) this.finishRefused()
    else {
      const marks = places[0]?.length === 0 ? 'none' : 'read'
      this.sendAttempt({ places, verb: 'peek', marks }, () => this.finishRefused())
    }
  }

  private finishRefused(): void {
    const answers = this.#answers.refusedAnswers()
    const refusals = (answers[0] ?? []).filter(isRefusal)
    if (refusals.every(({ held }) => held === true)) this.#deps.onHeldRefusal()
    this.answer(answers)
  }

  /** Not every slot answered: the caller of the store decides, and gives back what it refuses. */
  private answerSilence(): void {
    this.#isSilent = true
    this.answer(this.#answers.silentAnswers())
    // A mark is removed after the units that it is for.
    setImmediate(() => this.#deps.unmark(this.#answers.takeMarks()))
  }

  private answer(answers: Groups<Answer>): void {
    this.isAnswered = true
    clearTimeout(this.#timer)
    this.#options.resolve(answers)
  }

  private undo(places: TakePlaces, isFinal: boolean): Promise<void> {
    return this.#deps.undo(this.#answers.takeBack(places, isFinal))
  }
}

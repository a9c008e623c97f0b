/** One request for leased units, and the calls that wait for it. */
import type { CompiledLimit, PlannedTake, Take } from '@sluice/core'
import type { Answer, Groups, TakeOptions } from '../../store.js'
import type { DrawResult } from '../node-decider.js'
import type { Lease } from './lease.js'
import type { LeasedCounter } from './leased-counter.js'

export interface Waiter {
  readonly take: PlannedTake
  readonly resolve: (waited: DrawResult) => void
}

/**
 * The resets of all counters and of this one when the draw was sent. After a reset the grant is not
 * spent.
 */
export interface ResetCounts {
  readonly resets: number
  readonly ownResets: number
}

/** Both clocks at the moment of sending. */
export interface SendTimes {
  readonly nowMs: number
  readonly wallUs: number
  readonly deadlineMs: number
}

/** Also the options object of the store's `take`. */
export class Draw implements TakeOptions {
  readonly counter: LeasedCounter
  readonly compiled: CompiledLimit
  readonly take: Take
  /** Units requested beyond what waiting calls need. */
  readonly spare: number
  readonly resetCounts: ResetCounts
  readonly sentMs: number
  readonly sentWallUs: number
  readonly deadlineMs: number
  readonly states = true
  readonly onLate: (answers: Groups<Answer>) => void
  /** In order of arrival, including calls that came after it was sent. */
  waiting: Waiter[]
  /** Spare units not yet promised to calls that joined. */
  #unpromised: number
  /** Units of calls that were admitted although the draw was not answered. */
  #admitted = 0
  #lease: Lease | undefined
  #isSilent = false
  #late: Answer | undefined

  constructor(
    counter: LeasedCounter,
    waiting: Waiter[],
    spare: number,
    resetCounts: ResetCounts,
    times: SendTimes,
    onLate: (draw: Draw, answer: Answer) => void,
  ) {
    const { compiled } = counter
    this.counter = counter
    this.compiled = compiled
    this.waiting = waiting
    this.spare = spare
    this.resetCounts = resetCounts
    this.sentMs = times.nowMs
    this.sentWallUs = times.wallUs
    this.take = takeOf(counter, waiting, spare)
    this.deadlineMs = Math.max(1, Math.ceil(times.deadlineMs))
    this.#unpromised = spare
    this.onLate = (answers) => {
      if (this.#late !== undefined) return
      this.#late = answerOf(answers)
      if (this.#isSilent) onLate(this, this.#late)
    }
  }

  /**
   * Lets a later call wait for this draw, if the spare units cover it and it has at least as much
   * time as the draw. No call waits for two draws, whose times would add up.
   */
  join(waiter: Waiter, waitMs: number): boolean {
    const { amount } = waiter.take
    if (amount > this.#unpromised || waitMs < this.deadlineMs) return false
    this.#unpromised -= amount
    this.waiting.push(waiter)
    return true
  }

  /**
   * A call was admitted without the draw: its units are spent if they are granted, or were already.
   */
  onAdmitted(units: number): void {
    if (this.#lease === undefined) this.#admitted += units
    else this.#lease.settle(units)
  }

  /** Attaches the lease that the store granted. */
  onGranted(lease: Lease): void {
    this.#lease = lease
    lease.settle(this.#admitted)
  }

  /** Marks the draw as unanswered. Returns the late answer if it already arrived. */
  onSilence(): Answer | undefined {
    this.#isSilent = true
    return this.#late
  }
}

/** Requests at most the capacity of the counter: more is never granted. */
function takeOf({ key, compiled }: LeasedCounter, waiting: readonly Waiter[], spare: number): Take {
  const limit = compiled.immediate
  const needed = waiting.reduce((sum, { take }) => Math.min(sum + take.amount, limit.capacity), 0)
  const amount = Math.min(needed + spare, limit.capacity)
  const atLeast = waiting[0]?.take.amount ?? 1
  return { key, limit, amount, atLeast, ...(compiled.durable ? { durable: true } : {}) }
}

/** The answer to the only take of a draw. */
export function answerOf(answers: Groups<Answer>): Answer {
  return answers[0]?.[0] ?? 'unknown'
}

/** One request for a lease, and the calls that wait for it. */
import type { CompiledLimit, PlannedTake, Take } from '@sluice/core'
import type { Answer, Groups, TakeOptions } from '../../store.js'
import type { DrawResult } from '../node-decider.js'
import type { Lease } from './lease.js'
import type { LeasedCounter } from './leased-counter.js'

export interface Waiter {
  readonly take: PlannedTake
  readonly resolve: (waited: DrawResult) => void
}

/** Resets of any counter, and of this one, when it was sent: after one its grant is not spent. */
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

/** It is also what the store is asked with. */
export class Draw implements TakeOptions {
  readonly counter: LeasedCounter
  readonly compiled: CompiledLimit
  readonly take: Take
  /** Asked for beyond what waiting calls need. */
  readonly spare: number
  readonly resetCounts: ResetCounts
  readonly sentMs: number
  readonly sentWallUs: number
  readonly deadlineMs: number
  readonly states = true
  readonly onLate: (answers: Groups<Answer>) => void
  /** Also those that came since it was sent, in the order of their coming. */
  waiting: Waiter[]
  /** What of the spare units is not yet promised to calls that came since. */
  #unpromised: number
  /** Units of calls that were let pass while the store was silent to it. */
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
   * Takes in a call that came since, if the spare units will do for it: nobody waits for two draws,
   * whose times would add up, and none that has less time than the draw itself.
   */
  join(waiter: Waiter, waitMs: number): boolean {
    const { amount } = waiter.take
    if (amount > this.#unpromised || waitMs < this.deadlineMs) return false
    this.#unpromised -= amount
    this.waiting.push(waiter)
    return true
  }

  /** A call was let pass without it: its units are spent, if they are granted or were already. */
  onAdmitted(units: number): void {
    if (this.#lease === undefined) this.#admitted += units
    else this.#lease.settle(units)
  }

  /** What the store granted it. */
  onGranted(lease: Lease): void {
    this.#lease = lease
    lease.settle(this.#admitted)
  }

  /** The store did not answer in time. Returns the late answer if it was heard before that. */
  onSilence(): Answer | undefined {
    this.#isSilent = true
    return this.#late
  }
}

/** More than a counter holds is never granted, and need not be asked for. */
function takeOf({ key, compiled }: LeasedCounter, waiting: readonly Waiter[], spare: number): Take {
  const limit = compiled.immediate
  const needed = waiting.reduce((sum, { take }) => Math.min(sum + take.amount, limit.capacity), 0)
  const amount = Math.min(needed + spare, limit.capacity)
  const atLeast = waiting[0]?.take.amount ?? 1
  return { key, limit, amount, atLeast, ...(compiled.durable ? { durable: true } : {}) }
}

/** A draw is one take. */
export function answerOf(answers: Groups<Answer>): Answer {
  return answers[0]?.[0] ?? 'unknown'
}

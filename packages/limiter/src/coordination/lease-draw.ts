/** One request for a lease, and the calls that wait for it. */
import type { CompiledLimit, PlannedTake, Take } from '@sluice/core'
import type { Answer, Groups, TakeOptions } from '../store.js'
import type { Waited } from './here.js'
import type { Lease } from './lease.js'
import type { Meter } from './lease-meter.js'

export interface Waiter {
  readonly take: PlannedTake
  readonly resolve: (waited: Waited) => void
}

/** Resets of any counter, and of this one, when it was sent: after one its grant is not spent. */
export interface Era {
  readonly resets: number
  readonly ownResets: number
}

/** Both clocks at the moment of sending. */
export interface Sending {
  readonly nowMs: number
  readonly wallUs: number
  readonly deadlineMs: number
}

/** It is also what the store is asked with. */
export class Draw implements TakeOptions {
  readonly meter: Meter
  readonly of: CompiledLimit
  readonly take: Take
  /** Asked for beyond what waiting calls need. */
  readonly spare: number
  readonly era: Era
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
    meter: Meter,
    waiting: Waiter[],
    spare: number,
    era: Era,
    sending: Sending,
    onLate: (draw: Draw, answer: Answer) => void,
  ) {
    const { of } = meter
    this.meter = meter
    this.of = of
    this.waiting = waiting
    this.spare = spare
    this.era = era
    this.sentMs = sending.nowMs
    this.sentWallUs = sending.wallUs
    this.take = takeOf(meter, waiting, spare)
    this.deadlineMs = Math.max(1, Math.ceil(sending.deadlineMs))
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
  letPass(units: number): void {
    if (this.#lease === undefined) this.#admitted += units
    else this.#lease.settle(units)
  }

  /** What the store granted it. */
  became(lease: Lease): void {
    this.#lease = lease
    lease.settle(this.#admitted)
  }

  /** The store did not answer in time. Returns the late answer if it was heard before that. */
  silent(): Answer | undefined {
    this.#isSilent = true
    return this.#late
  }
}

/** More than a counter holds is never granted, and need not be asked for. */
function takeOf({ key, of }: Meter, waiting: readonly Waiter[], spare: number): Take {
  const limit = of.immediate
  const needed = waiting.reduce((sum, { take }) => Math.min(sum + take.amount, limit.capacity), 0)
  const amount = Math.min(needed + spare, limit.capacity)
  const atLeast = waiting[0]?.take.amount ?? 1
  return { key, limit, amount, atLeast, ...(of.durable ? { durable: true } : {}) }
}

/** A draw is one take. */
export function answerOf(answers: Groups<Answer>): Answer {
  return answers[0]?.[0] ?? 'unknown'
}

/** A call that was sent to the store, and what must be kept until its fate is known. */
import type { Plan } from '@sluice/core'
import type { AlternativeFallback, Spending } from './fallback/fallback-decider.js'
import type { PlannedCalls } from './planned/planned-calls.js'
import type { MixedCall } from './coordination/mixed-call.js'
import type { SentCall } from './deny-cache.js'
import type { Answer, Groups, TakeOptions } from './store.js'

export interface DecideOptions {
  readonly receipt?: boolean | 'if-delayed' | undefined
  /**
   * What the plan is for, unless it is for one ordinary call. A reserve: only the store can say
   * what it took, and if it was made before. Calls that compose their decision themselves.
   */
  readonly purpose?: 'reserve' | PlannedCalls | undefined
  readonly inFlight?: boolean | undefined
  /** Of planned calls: how long they may wait for the store, unless a rule says less. */
  readonly deadlineMs?: number | undefined
  /** See `TakeOptions`. */
  readonly capMs?: number | undefined
}

/** What this node does with a call that the store decides. */
export interface NodeRole {
  readonly learns: boolean
  readonly mixed: MixedCall | undefined
}

export const NO_ROLE: NodeRole = { learns: false, mixed: undefined }
export const LEARNING_ROLE: NodeRole = { learns: true, mixed: undefined }

type OnLate = (pending: PendingDecision, answers: Groups<Answer>) => void

/** One object per call, which is also the options object of the store's `take`. */
export class PendingDecision implements TakeOptions, SentCall {
  readonly plan: Plan
  readonly options: DecideOptions
  readonly sentMs: number
  readonly generation: number
  readonly deadlineMs: number | undefined
  readonly states: boolean
  readonly onLate: (answers: Groups<Answer>) => void
  /** Whether this node learns from what the store decides. */
  readonly learns: boolean
  /** The whole call, if this node decides some of it and `plan` is only the rest. */
  readonly mixed: MixedCall | undefined
  isDecided = false
  allowed = false
  spendings: readonly (Spending | undefined)[] = NO_SPENDING
  /** What became of groups that are alternatives, if the store did not answer wholly. */
  alternatives: readonly AlternativeFallback[] = NO_ALTERNATIVES
  /** The last answer of the store; undefined if there was none, so that each take may have run. */
  answers: Groups<Answer> | undefined
  #late: Groups<Answer> | undefined

  constructor(
    plan: Plan,
    options: DecideOptions,
    sentMs: number,
    generation: number,
    deadlineMs: number | undefined,
    states: boolean,
    onLate: OnLate,
    { learns, mixed }: NodeRole,
  ) {
    this.plan = plan
    this.options = options
    this.sentMs = sentMs
    this.generation = generation
    this.deadlineMs = deadlineMs
    this.states = states
    this.onLate = (answers) => onLate(this, answers)
    this.learns = learns
    this.mixed = mixed
    this.answers = undefined
    this.#late = undefined
  }

  get capMs(): number | undefined {
    return this.options.capMs
  }

  /** Records a decision made without the whole answer. Returns a late answer that already came. */
  decide(
    answers: Groups<Answer> | undefined,
    allowed: boolean,
    spendings: readonly (Spending | undefined)[],
    alternatives = NO_ALTERNATIVES,
  ): Groups<Answer> | undefined {
    this.isDecided = true
    this.answers = answers
    this.allowed = allowed
    this.spendings = spendings
    this.alternatives = alternatives
    return this.#late
  }

  /** Records a late answer; true if it is the first, and the call was decided without it. */
  recordLate(answers: Groups<Answer>): boolean {
    if (this.#late !== undefined) return false
    this.#late = answers
    return this.isDecided
  }
}

const NO_SPENDING: readonly (Spending | undefined)[] = []
const NO_ALTERNATIVES: readonly AlternativeFallback[] = []

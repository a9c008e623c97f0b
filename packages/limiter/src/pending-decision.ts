/** A call on its way to the store, and what must be kept of it until its fate is known. */
import type { Plan } from '@sluice/core'
import type { MixedCall } from './coordination/mixed-call.js'
import type { SentCall } from './deny-cache.js'
import type { Spending } from './fallback/fallback-decider.js'
import type { Answer, Groups, TakeOptions } from './store.js'

export interface DecideOptions {
  readonly receipt?: boolean | 'if-delayed' | undefined
}

/** What this node has to do with a call that the store decides. */
export interface NodeRole {
  readonly learns: boolean
  readonly mixed: MixedCall | undefined
}

export const NO_ROLE: NodeRole = { learns: false, mixed: undefined }
export const LEARNING_ROLE: NodeRole = { learns: true, mixed: undefined }

type OnLate = (pending: PendingDecision, answers: Groups<Answer>) => void

/** One object for each call: it is also what the store is asked with. */
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
  /** The whole call, where this node decides some of it and `plan` is only the rest. */
  readonly mixed: MixedCall | undefined
  isDecided = false
  allowed = false
  spendings: readonly (Spending | undefined)[] = NO_SPENDING
  /** What the store said last; undefined: nothing, so that each take may have run. */
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

  /** Decided without the whole answer. Returns what came late before it was. */
  decide(
    answers: Groups<Answer> | undefined,
    allowed: boolean,
    spendings: readonly (Spending | undefined)[],
  ): Groups<Answer> | undefined {
    this.isDecided = true
    this.answers = answers
    this.allowed = allowed
    this.spendings = spendings
    return this.#late
  }

  /** Whether these answers are the first to come late, to a call that was decided. */
  recordLate(answers: Groups<Answer>): boolean {
    if (this.#late !== undefined) return false
    this.#late = answers
    return this.isDecided
  }
}

const NO_SPENDING: readonly (Spending | undefined)[] = []

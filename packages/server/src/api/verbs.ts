/** What the decision API does: the verbs of the limiter, asked for in JSON. */
import type { Decision } from '@sluice/core'
import type { Decider } from '../decider.js'
import type { ProblemAnswer } from '../http/answer.js'
import type { Rights } from './access.js'
import type { Failures } from './failures.js'
import { needsAdmin, problemObject } from './problems.js'
import {
  type Asked,
  CHECK_KEYS,
  PEEK_KEYS,
  RESET_KEYS,
  readCall,
  readCalls,
  readRefund,
} from './read-call.js'

/** What is told as JSON, or why nothing was done. */
export type Answer =
  | Decision
  | readonly object[]
  | { readonly refunded: true }
  | { readonly reset: true }
  | { readonly problem: ProblemAnswer }

/** Each takes what was sent, as JSON says it; what is no call rejects with a SluiceError. */
export class Verbs {
  readonly #decider: Decider
  readonly #failures: Failures

  constructor(decider: Decider, failures: Failures) {
    this.#decider = decider
    this.#failures = failures
  }

  check(sent: unknown): Promise<Answer> {
    // What was asked is both the call and the options: nothing is copied on the way.
    const decide = async (asked: Asked) => this.#decider.check(asked, 'api', asked)
    if (Array.isArray(sent)) return this.decideAll(readCalls(sent, CHECK_KEYS), decide)
    return decide(readCall(sent, CHECK_KEYS))
  }

  peek(sent: unknown): Promise<Answer> {
    const { limiter } = this.#decider
    const decide = (asked: Asked) => limiter.peek(asked)
    if (Array.isArray(sent)) return this.decideAll(readCalls(sent, PEEK_KEYS), decide)
    return decide(readCall(sent, PEEK_KEYS))
  }

  explain(sent: unknown): Promise<Answer> {
    return this.#decider.limiter.explain(readCall(sent, PEEK_KEYS))
  }

  /** A receipt gives back what its owner took; attributes give budget to anybody. */
  async refund(sent: unknown, rights: Rights): Promise<Answer> {
    const what = readRefund(sent)
    if (typeof what !== 'string' && rights !== 'admin') {
      return { problem: needsAdmin('A refund by attributes, unlike one by receipt,') }
    }
    await this.#decider.limiter.refund(what)
    return { refunded: true }
  }

  async reset(sent: unknown): Promise<Answer> {
    const asked = readCall(sent, RESET_KEYS)
    await this.#decider.limiter.reset(asked, asked)
    return { reset: true }
  }

  /**
   * Each on its own, asked for in their order and all at once, so that a store can answer them
   * together. One that fails leaves the others what they are: they may have been charged.
   */
  private decideAll(
    items: readonly Asked[],
    decide: (asked: Asked) => Promise<Decision>,
  ): Promise<readonly object[]> {
    const failed = (error: unknown) => problemObject(this.#failures.problemOf(error))
    return Promise.all(items.map((item) => decide(item).catch(failed)))
  }
}

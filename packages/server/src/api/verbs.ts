/** What the decision API does: the verbs of the limiter, asked for in JSON. */
import type { Attributes, Decision } from '@sluice/core'
import type { Decider } from '../decider.js'
import { type ProblemAnswer, problemObject } from '../http/answer.js'
import type { Failures } from '../http/failures.js'
import type { Traced } from '../telemetry/telemetry.js'
import type { Rights } from './access.js'
import { needsAdmin } from './problems.js'
import {
  type Asked,
  CHECK_KEYS,
  type Key,
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

/** Who asks, and where its question stands in a trace. */
export interface Asking {
  readonly rights: Rights
  readonly traced: Traced | undefined
}

const CHECK = { way: 'api' } as const
const PEEK = { way: 'api', isPeek: true } as const

/** Each takes what was sent, as JSON says it; what is no call rejects with a SluiceError. */
export class Verbs {
  readonly #decider: Decider
  readonly #failures: Failures
  readonly #hideSecrets: (attributes: Attributes) => Attributes

  constructor(
    decider: Decider,
    failures: Failures,
    hideSecrets: (attributes: Attributes) => Attributes,
  ) {
    this.#decider = decider
    this.#failures = failures
    this.#hideSecrets = hideSecrets
  }

  check(sent: unknown, { traced }: Asking): Answer | Promise<Answer> {
    // What was asked is both the call and the options: nothing is copied on the way.
    const ask = (asked: Asked) => this.#decider.check(asked, 'api', asked)
    const decide = (asked: Asked) =>
      traced === undefined ? ask(asked) : traced.decide(CHECK, () => ask(asked))
    if (Array.isArray(sent)) {
      return this.decideAll(this.readCalls(sent, CHECK_KEYS), async (asked) => decide(asked))
    }
    return decide(this.readCall(sent, CHECK_KEYS))
  }

  peek(sent: unknown, { traced }: Asking): Promise<Answer> {
    const { limiter } = this.#decider
    const decide = async (asked: Asked) =>
      traced === undefined ? limiter.peek(asked) : traced.decide(PEEK, () => limiter.peek(asked))
    if (Array.isArray(sent)) return this.decideAll(this.readCalls(sent, PEEK_KEYS), decide)
    return decide(this.readCall(sent, PEEK_KEYS))
  }

  explain(sent: unknown): Promise<Answer> {
    return this.#decider.limiter.explain(this.readCall(sent, PEEK_KEYS))
  }

  /** A receipt gives back what its owner took; attributes give budget to anybody. */
  async refund(sent: unknown, { rights }: Asking): Promise<Answer> {
    const refund = readRefund(sent)
    const what = typeof refund === 'string' ? refund : this.hidden(refund)
    if (typeof what !== 'string' && rights !== 'admin') {
      return { problem: needsAdmin('A refund by attributes, unlike one by receipt,', rights) }
    }
    await this.#decider.limiter.refund(what)
    return { refunded: true }
  }

  async reset(sent: unknown): Promise<Answer> {
    const asked = this.readCall(sent, RESET_KEYS)
    await this.#decider.limiter.reset(asked, asked)
    return { reset: true }
  }

  private readCall(sent: unknown, keys: readonly Key[]): Asked {
    return this.hidden(readCall(sent, keys))
  }

  private readCalls(sent: readonly unknown[], keys: readonly Key[]): readonly Asked[] {
    return readCalls(sent, keys).map((asked) => this.hidden(asked))
  }

  /** A key is the same caller here as at the gateway, and a secret in neither's log. */
  private hidden(asked: Asked): Asked {
    const attributes = this.#hideSecrets(asked.attributes)
    return attributes === asked.attributes ? asked : { ...asked, attributes }
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

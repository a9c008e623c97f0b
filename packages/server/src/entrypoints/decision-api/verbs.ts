/** The operations of the decision API: the verbs of the limiter, with JSON bodies. */
import type { Attributes, Decision } from '@sluice/core'
import type { Settlement } from '@sluice/limiter'
import type { Decider } from '../../decide.js'
import { type HttpProblem, problemObject } from '../http/responses.js'
import type { ErrorReporter } from '../http/error-reporter.js'
import type { RequestTrace } from '../../observability/tracing/telemetry.js'
import type { Rights } from './api-authorization.js'
import { needsAdmin } from './api-problems.js'
import {
  type CallRequest,
  CHECK_FIELDS,
  type CallField,
  PEEK_FIELDS,
  PLAIN_FIELDS,
  RESERVE_FIELDS,
  RESET_FIELDS,
  CANCEL_FIELDS,
  EXTEND_FIELDS,
  SETTLE_FIELDS,
  type ReservationRequest,
  readCall,
  readCalls,
  readRefund,
  readRefunds,
  readReservation,
  readReservations,
} from './read-call.js'

/** The response body, or why nothing was done. */
export type VerbResult =
  | Decision
  | DecisionResult
  | readonly object[]
  | { readonly refunded: true }
  | { readonly reset: true }
  | Settlement
  | { readonly problem: HttpProblem }

/** A decision whose body has more than its own fields. */
interface DecisionResult {
  readonly decision: Decision
  readonly body: object
}

/** The rights of the sender, and its trace. */
export interface VerbContext {
  readonly rights: Rights
  readonly traced: RequestTrace | undefined
}

const REFUNDED = { refunded: true } as const
const PEEK = { entryPoint: 'api', isPeek: true } as const

/** Each operation takes the parsed body, and fails with a SluiceError if it is not a call. */
export class Verbs {
  readonly #decider: Decider
  readonly #errorReporter: ErrorReporter
  readonly #hideSecrets: (attributes: Attributes) => Attributes

  constructor(
    decider: Decider,
    errorReporter: ErrorReporter,
    hideSecrets: (attributes: Attributes) => Attributes,
  ) {
    this.#decider = decider
    this.#errorReporter = errorReporter
    this.#hideSecrets = hideSecrets
  }

  check(sent: unknown, { traced }: VerbContext): VerbResult | Promise<VerbResult> {
    // The request is both the call and the options, so nothing is copied.
    const decide = (request: CallRequest) => this.#decider.check(request, 'api', request, traced)
    if (Array.isArray(sent)) {
      return this.decideAll(this.readCalls(sent, CHECK_FIELDS), async (request) => decide(request))
    }
    const request = this.readCall(sent, CHECK_FIELDS)
    const decided = decide(request)
    return request.policies === true ? withPolicies(decided) : decided
  }

  peek(sent: unknown, { traced }: VerbContext): Promise<VerbResult> {
    const { limiter } = this.#decider
    const decide = async (request: CallRequest) =>
      traced === undefined
        ? limiter.peek(request)
        : traced.decide(PEEK, () => limiter.peek(request))
    if (Array.isArray(sent)) return this.decideAll(this.readCalls(sent, PEEK_FIELDS), decide)
    const request = this.readCall(sent, PEEK_FIELDS)
    const decided = decide(request)
    return request.policies === true ? withPolicies(decided) : decided
  }

  explain(sent: unknown): Promise<VerbResult> {
    return this.#decider.limiter.explain(this.readCall(sent, PLAIN_FIELDS))
  }

  /** A receipt refunds what its owner took; a refund by attributes needs the admin token. */
  async refund(sent: unknown, { rights }: VerbContext): Promise<VerbResult> {
    const refunds = Array.isArray(sent) ? readRefunds(sent) : [readRefund(sent)]
    if (rights !== 'admin' && refunds.some((refund) => typeof refund !== 'string')) {
      return { problem: needsAdmin('A refund by attributes, unlike one by receipt,', rights) }
    }
    const refunding = refunds.map((refund) => this.refundOne(refund))
    if (!Array.isArray(sent)) {
      await refunding[0]
      return REFUNDED
    }
    return Promise.all(
      refunding.map((done) =>
        done.then(
          () => REFUNDED,
          (error) => this.problemOf(error),
        ),
      ),
    )
  }

  private async refundOne(refund: string | CallRequest): Promise<void> {
    const what = typeof refund === 'string' ? refund : this.withMaskedSecrets(refund)
    await this.#decider.limiter.refund(what)
  }

  async reset(sent: unknown): Promise<VerbResult> {
    const request = this.readCall(sent, RESET_FIELDS)
    await this.#decider.limiter.reset(request, request)
    return { reset: true }
  }

  reserve(sent: unknown, { traced }: VerbContext): Promise<VerbResult> {
    const decide = (request: CallRequest) => this.#decider.reserve(request, 'api', request, traced)
    if (Array.isArray(sent)) return this.decideAll(this.readCalls(sent, RESERVE_FIELDS), decide)
    const request = this.readCall(sent, RESERVE_FIELDS)
    const decided = decide(request)
    return request.policies === true ? withPolicies(decided) : decided
  }

  settle(sent: unknown): Promise<VerbResult> {
    return this.eachReservation(sent, SETTLE_FIELDS, ({ reservation, actual }) =>
      this.#decider.limiter.settle(reservation, actual),
    )
  }

  extend(sent: unknown): Promise<VerbResult> {
    return this.eachReservation(sent, EXTEND_FIELDS, ({ reservation, attributes, ...options }) =>
      this.#decider.limiter.extend(reservation, attributes, options),
    )
  }

  cancel(sent: unknown): Promise<VerbResult> {
    return this.eachReservation(sent, CANCEL_FIELDS, ({ reservation }) =>
      this.#decider.limiter.cancel(reservation),
    )
  }

  /** Runs a verb for one reservation, or for each of a list; one that fails stops no other. */
  private async eachReservation<Field extends keyof ReservationRequest>(
    sent: unknown,
    fields: readonly Field[],
    run: (request: Pick<ReservationRequest, Field>) => Promise<Settlement | Decision>,
  ): Promise<VerbResult> {
    if (!Array.isArray(sent)) return run(readReservation(sent, fields))
    const failed = (error: unknown) => this.problemOf(error)
    const requests = readReservations(sent, fields)
    return Promise.all(requests.map((request) => run(request).catch(failed)))
  }

  private readCall(sent: unknown, keys: readonly CallField[]): CallRequest {
    return this.withMaskedSecrets(readCall(sent, keys))
  }

  private readCalls(sent: readonly unknown[], keys: readonly CallField[]): readonly CallRequest[] {
    return readCalls(sent, keys).map((request) => this.withMaskedSecrets(request))
  }

  /** Masks secrets, so that a key is the same caller here as at the gateway and in no log. */
  private withMaskedSecrets(request: CallRequest): CallRequest {
    const attributes = this.#hideSecrets(request.attributes)
    return attributes === request.attributes ? request : { ...request, attributes }
  }

  /**
   * Decides each call on its own, in order and without waiting, so that a store can batch them. If
   * one fails the others keep their decisions: they may have been charged.
   */
  private decideAll(
    items: readonly CallRequest[],
    decide: (request: CallRequest) => Promise<Decision>,
  ): Promise<readonly object[]> {
    const failed = (error: unknown) => this.problemOf(error)
    return Promise.all(
      items.map((item) =>
        decide(item).then(
          (decision) => (item.policies === true ? bodyWithPolicies(decision) : decision),
          failed,
        ),
      ),
    )
  }

  private problemOf(error: unknown): object {
    return problemObject(this.#errorReporter.problemOf(error))
  }
}

async function withPolicies(decided: Decision | Promise<Decision>): Promise<DecisionResult> {
  const decision = await decided
  return { decision, body: bodyWithPolicies(decision) }
}

/** With what the headers of a decision are made from, for clients that write them themselves. */
function bodyWithPolicies(decision: Decision): object {
  const policies = decision.policies()
  // The handle of a reservation is no field of its own: it is written when it is read.
  if (!('reservation' in decision)) return { ...decision, policies }
  return { ...decision, reservation: decision.reservation, policies }
}

/**
 * One call to a language model: its estimate is reserved when it is decided, and what it used is
 * settled when its answer ends, however it ends.
 */
import type { Attributes, Call, Decision } from '@sluice/core'
import type { Reservation, Settlement } from '@sluice/limiter'
import type { AnswerEnd, ExchangeTap, UpstreamFailure } from '../forward.js'
import { headerOf } from '../response-headers.js'
import { AnswerReader } from './answer-reader.js'
import { DIALECTS, type TokenUsage } from './dialects.js'
import { EventBoundary } from './event-scanner.js'
import type { MeteredUpstream } from './metering.js'
import type { RequestFacts } from './request-reader.js'
import type { CallEstimate, Costs } from './token-estimates.js'

/** The part of a reservation that is used here. */
export interface CallReservation
  extends Pick<
    Reservation,
    'allowed' | 'reason' | 'postures' | 'retryAfterMs' | 'reserved' | 'settle' | 'cancel'
  > {
  extend(attributes: Attributes): Promise<CallReservation>
}

/**
 * By what a call was charged: the usage that its answer reported; what was seen of the answer; its
 * reserve; or no tokens at all.
 */
type ChargeKind = 'reported' | 'seen' | 'reserved' | 'none'

interface Charge {
  readonly kind: ChargeKind
  /** Of those that were reported or seen. */
  readonly usage?: TokenUsage | undefined
}

const NO_CHARGE: Charge = { kind: 'none' }

/** The name under which a reservation has the cost of the call itself. */
const CALL_COST = 'cost'

/**
 * Tokens by which a reservation is extended at a time: a stream of a hundred tokens a second asks
 * the store about every three seconds.
 */
export const EXTENSION_TOKENS = 256
/** If there is no budget for so many, smaller extensions are tried, down to this one. */
const EXTENSION_TOKENS_MIN = 16

export class MeteredCall implements ExchangeTap {
  readonly #upstream: MeteredUpstream
  readonly #facts: RequestFacts
  #estimate: CallEstimate | undefined
  /** Undefined until the call is admitted. */
  #reservation: CallReservation | undefined
  /** By cost attribute, what the reservation holds. */
  #reserved: Readonly<Record<string, number>> = {}
  #isRequestSent = false
  #status = 0
  #answer: AnswerReader | undefined
  /** Undefined: no event can be added to the answer. */
  #boundary: EventBoundary | undefined
  #extensionTokens = EXTENSION_TOKENS
  /** Tokens by which it was to be extended since the store has answered last. */
  #unansweredTokens = 0
  /** Pending while the reservation is being extended. */
  #extension: Promise<void> | undefined
  /** Set when there was no budget for an extension: what the client is told. */
  #exhausted: string | undefined
  #isOver = false

  constructor(upstream: MeteredUpstream, facts: RequestFacts) {
    this.#upstream = upstream
    this.#facts = facts
  }

  /** Decides the call and reserves its estimate. */
  async decide<Decided extends Decision & CallReservation>(
    call: Call,
    reserve: (call: Call) => Promise<Decided>,
  ): Promise<Decided> {
    const { estimates, limiter } = this.#upstream
    const { model, stream } = this.#facts
    const attributes = { ...call.attributes, model, stream }
    const limits = limiter.costLimits({ attributes })
    this.#estimate = estimates.estimate(this.#facts, limits)
    const reservation = await reserve({ attributes: { ...attributes, ...this.#estimate.costs } })
    if (reservation.allowed) this.use(reservation)
    return reservation
  }

  /** Gives everything back, as if there had been no call. */
  cancel(): void {
    this.finish(NO_CHARGE, (reservation) => reservation.cancel())
  }

  /** The call is not forwarded: the tokens are given back, the call itself stays counted. */
  release(): void {
    this.settle(NO_CHARGE)
  }

  onRequestSent(): void {
    this.#isRequestSent = true
  }

  onHead(status: number, raw: readonly Buffer[]): void {
    const { dialect } = this.#upstream.config
    this.#status = status
    const answer = new AnswerReader(dialect, {
      contentType: headerOf(raw, 'content-type'),
      contentEncoding: headerOf(raw, 'content-encoding'),
    })
    this.#answer = answer
    const hasLength = headerOf(raw, 'content-length') !== ''
    if (answer.isPlainEvents && !hasLength) this.#boundary = new EventBoundary()
  }

  onData(bytes: Buffer): AnswerEnd | undefined {
    const answer = this.#answer
    if (this.#isOver) return undefined
    answer?.push(bytes)
    if (answer?.isEvents !== true || this.#upstream.config.onExhausted === 'continue') {
      return undefined
    }
    const end = this.#exhausted === undefined ? undefined : this.endOf(bytes, this.#exhausted)
    if (end !== undefined) {
      this.#upstream.metrics.countStopped()
      return end
    }
    this.#boundary?.pass(bytes)
    this.extendIfNeeded()
    return undefined
  }

  onEnd(failure: UpstreamFailure | undefined): void {
    const settle = () => this.settle(this.chargeOf(failure))
    const ended = this.#answer?.end()
    if (ended === undefined) settle()
    else ended.then(settle, (error: unknown) => this.#upstream.onError(error))
  }

  private use(reservation: CallReservation): void {
    this.#reservation = reservation
    this.#reserved = reservation.reserved()
  }

  /**
   * A client may not leave for free once the upstream has its request. It pays for no answer that
   * the upstream failed to give or refused.
   */
  private chargeOf(failure: UpstreamFailure | undefined): Charge {
    const answer = this.#answer
    if (answer === undefined) {
      const isFree = failure !== undefined || !this.#isRequestSent
      return isFree ? NO_CHARGE : { kind: 'reserved' }
    }
    if (answer.reported !== undefined) return { kind: 'reported', usage: answer.reported }
    if (this.#status < 200 || this.#status > 299) return NO_CHARGE
    const seen = answer.seenUsage(this.#estimate?.input ?? 0)
    if (seen !== undefined) return { kind: 'seen', usage: seen }
    return failure === undefined ? { kind: 'reserved' } : NO_CHARGE
  }

  private settle(charge: Charge): void {
    this.finish(charge, (reservation) => reservation.settle(this.actualCosts(charge)))
  }

  /** Of the costs that were reserved; without that of the call itself, which stays. */
  private actualCosts({ kind, usage }: Charge): Readonly<Record<string, number>> {
    const used = usage === undefined ? {} : this.costsOf(usage)
    const costs: Record<string, number> = {}
    for (const [name, amount] of Object.entries(this.#reserved)) {
      if (name === CALL_COST) continue
      costs[name] = lookUp(used, name) ?? (kind === 'none' ? 0 : amount)
    }
    return costs
  }

  /** Waits for an extension, which changes the reservation. */
  private finish(charge: Charge, end: (reservation: CallReservation) => Promise<Settlement>): void {
    if (this.#isOver || this.#reservation === undefined) return
    this.#isOver = true
    this.count(charge)
    const { settlements, metrics } = this.#upstream
    settlements.run({
      settle: async () => {
        await this.#extension
        if (this.#reservation === undefined) return
        const { reason } = await end(this.#reservation)
        if (reason === 'expired') metrics.countUnsettled()
      },
      onDropped: () => metrics.countUnsettled(),
    })
  }

  private count({ kind, usage }: Charge): void {
    const { metrics, estimates } = this.#upstream
    metrics.countCall(kind)
    if (kind === 'reserved' && this.#answer !== undefined) {
      metrics.countUnread(this.#answer.unread ?? 'absent')
    }
    if (usage === undefined) return
    metrics.countUsage(usage, this.costsOf(usage))
    if (kind === 'reported' && this.#estimate !== undefined) estimates.record(this.#estimate, usage)
  }

  /** Extends the reservation once what was seen exceeds it. The stream goes on meanwhile. */
  private extendIfNeeded(): void {
    const reservation = this.#reservation
    if (reservation === undefined || this.#extension !== undefined) return
    if (this.#exhausted !== undefined) return
    const seen = this.costsSeen(-this.#unansweredTokens)
    const isOver = ([name, held]: [string, number]) => (lookUp(seen, name) ?? 0) > held
    if (!Object.entries(this.#reserved).some(isOver)) return
    this.#extension = this.extend(reservation)
  }

  /**
   * A store that fails ends no stream, and is not asked again: the call is settled when it ends.
   */
  private async extend(reservation: CallReservation): Promise<void> {
    try {
      this.onExtended(await reservation.extend(this.missing()))
    } catch (error) {
      this.#upstream.onError(error)
    }
  }

  private missing(): Readonly<Record<string, number>> {
    const wanted = this.costsSeen(this.#extensionTokens)
    const missing = Object.entries(this.#reserved).flatMap(([name, held]) => {
      const units = (lookUp(wanted, name) ?? 0) - held
      return units > 0 ? [[name, units] as const] : []
    })
    return Object.fromEntries(missing)
  }

  private onExtended(extended: CallReservation): void {
    this.#extension = undefined
    if (isByPosture(extended)) this.#unansweredTokens += this.#extensionTokens
    else if (extended.allowed) this.onAnswered(extended)
    else if (this.#extensionTokens > EXTENSION_TOKENS_MIN) this.#extensionTokens /= 2
    else this.#exhausted = exhaustedText(extended)
  }

  private onAnswered(extended: CallReservation): void {
    this.#unansweredTokens = 0
    this.use(extended)
  }

  /**
   * The costs of what was seen so far, and of this many tokens more. An estimate of the input that
   * is as large as a limit is left out: it may be far too large, and would end every stream.
   */
  private costsSeen(more: number): Costs {
    const input = this.#estimate?.isCapped === false ? this.#estimate.input : 0
    const seen = this.#answer?.seenUsage(input) ?? { input, cached: 0, output: 0 }
    return this.costsOf({ ...seen, output: seen.output + more })
  }

  private costsOf(usage: Omit<TokenUsage, 'reasoning'>): Costs {
    return this.#upstream.estimates.costsOf(this.#facts.model, usage)
  }

  /** Where an answer ends whose caller has no budget left: after the event that has begun. */
  private endOf(bytes: Buffer, message: string): AnswerEnd | undefined {
    if (this.#boundary === undefined) return BREAK_OFF
    const length = this.#boundary.find(bytes)
    if (length < 0) return undefined
    const dialect = DIALECTS[this.#upstream.config.dialect]
    return { bytes: length, last: dialect.stopEvent(message) }
  }
}

/**
 * Whether the store did not answer an extension: it neither reserved anything nor knows that the
 * budget is used up. It is asked again when as many tokens more were seen.
 */
function isByPosture({ allowed, reason, postures }: CallReservation): boolean {
  return allowed ? postures !== undefined : reason === 'posture'
}

function exhaustedText({ retryAfterMs }: CallReservation): string {
  const text = 'The token budget is used up.'
  if (retryAfterMs === null) return text
  return `${text} Retry after ${Math.max(1, Math.ceil(retryAfterMs / 1000))} seconds.`
}

/** A compressed stream, or one of a declared length, cannot be added to. */
const BREAK_OFF: AnswerEnd = { bytes: 0, last: undefined }

function lookUp(costs: Readonly<Record<string, number | undefined>>, name: string) {
  return costs[name]
}

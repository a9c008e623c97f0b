/**
 * Records decisions as OpenTelemetry spans. Only programs that import this module need the API
 * package; the SDK and exporters are theirs.
 */
import {
  type Attributes,
  type Context,
  context,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import type {
  Attributes as CallAttributes,
  Call,
  Decision,
  OverrideChange,
  ParsedRules,
  Policy,
  Problem,
} from '@sluice/core'
import type { LimiterStats } from './limiter-types.js'
import type { Inspection, InspectedCaller } from './inspect.js'
import type { CheckOptions, Limiter, RulesOptions } from './limiter-types.js'
import type { ReservationStats } from './reservation/reservation-stats.js'
import type { SheddingStats } from './shed/load-shedding.js'
import type { ResetOptions } from './refund.js'
import type {
  ActualCosts,
  Reservation,
  ReserveOptions,
  Settlement,
} from './reservation/reservation-types.js'
import type { RulesInput } from './rule-set.js'

export interface TraceOptions {
  /** The tracer to use. @default `@sluice/limiter` of the registered SDK */
  readonly tracer?: Tracer | undefined
}

const SPAN_NAME = 'sluice.check'

/**
 * Wraps a limiter so that `check`, `checkSync`, `decide` and `peek` record spans. Synchronous
 * decisions stay synchronous.
 *
 * @example const traced = traceLimiter(createLimiter({ rules }))
 */
export function traceLimiter(limiter: Limiter, options: TraceOptions = {}): Limiter {
  return new TracedLimiter(limiter, options.tracer ?? trace.getTracer('@sluice/limiter'))
}

export interface DecisionSpan {
  readonly tracer: Tracer
  /** The parent of the span. */
  readonly parent: Context
  /** Added to the attributes of the decision. */
  readonly attributes?: Attributes | undefined
}

/** Decides within a span that ends with the decision. */
export function traceDecision<Decided extends Decision>(
  decisionSpan: DecisionSpan,
  decide: () => Decided | Promise<Decided>,
): Decided | Promise<Decided> {
  const span = startSpan(decisionSpan)
  if (span === undefined) return decide()
  try {
    const decision = decide()
    return decision instanceof Promise ? endLater(span, decision) : end(span, decision)
  } catch (error) {
    throw fail(span, error)
  }
}

/** The span attributes of a decision; nothing about the caller. */
export function decisionAttributes(decision: Decision): Attributes {
  const { rule, limitName, limit, remaining, retryAfterMs, staleMs, shadow, priority } = decision
  return {
    'sluice.allowed': decision.allowed,
    'sluice.reason': decision.reason,
    'sluice.source': decision.source,
    'sluice.delay_ms': decision.delayMs,
    ...(rule !== null && { 'sluice.rule': rule }),
    ...(limitName !== null && { 'sluice.limit_name': limitName }),
    ...(limit !== null && { 'sluice.limit': limit }),
    ...(remaining !== null && { 'sluice.remaining': remaining }),
    ...(retryAfterMs !== null && { 'sluice.retry_after_ms': retryAfterMs }),
    ...(priority !== undefined && { 'sluice.priority': priority }),
    ...(shadow.length > 0 && { 'sluice.shadow': [...shadow] }),
    ...(staleMs !== undefined && { 'sluice.stale_ms': staleMs }),
  }
}

/** Undefined if the span is not recorded. */
function startSpan({ tracer, parent, attributes = {} }: DecisionSpan): Span | undefined {
  const span = tracer.startSpan(SPAN_NAME, { kind: SpanKind.INTERNAL, attributes }, parent)
  return span.isRecording() ? span : undefined
}

function end<Decided extends Decision>(span: Span, decision: Decided): Decided {
  span.setAttributes(decisionAttributes(decision))
  span.end()
  return decision
}

async function endLater<Decided extends Decision>(
  span: Span,
  decision: Promise<Decided>,
): Promise<Decided> {
  try {
    return end(span, await decision)
  } catch (error) {
    throw fail(span, error)
  }
}

/** Records only the error code: the message may contain input of a caller. */
function fail(span: Span, error: unknown): unknown {
  const code = codeOf(error)
  span.recordException({ code })
  span.setStatus({ code: SpanStatusCode.ERROR, message: code })
  span.end()
  return error
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown'
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name
}

class TracedLimiter implements Limiter {
  readonly #limiter: Limiter
  readonly #tracer: Tracer

  constructor(limiter: Limiter, tracer: Tracer) {
    this.#limiter = limiter
    this.#tracer = tracer
  }

  check(call: Call, options?: CheckOptions): Promise<Decision> {
    const span = this.start()
    const decision = this.#limiter.check(call, options)
    return span === undefined ? decision : endLater(span, decision)
  }

  checkSync(call: Call, options?: CheckOptions): Decision {
    const span = this.start()
    if (span === undefined) return this.#limiter.checkSync(call, options)
    try {
      return end(span, this.#limiter.checkSync(call, options))
    } catch (error) {
      throw fail(span, error)
    }
  }

  decide(call: Call, options?: CheckOptions): Decision | Promise<Decision> {
    const decisionSpan = { tracer: this.#tracer, parent: context.active() }
    return traceDecision(decisionSpan, () => this.#limiter.decide(call, options))
  }

  peek(call: Call): Promise<Decision> {
    const span = this.start({ 'sluice.peek': true })
    const decision = this.#limiter.peek(call)
    return span === undefined ? decision : endLater(span, decision)
  }

  explain(call: Call): Promise<Decision> {
    return this.#limiter.explain(call)
  }

  limits(call: Call): Promise<readonly Policy[]> {
    return this.#limiter.limits(call)
  }

  costLimits(call: Call): ReadonlyMap<string, number> {
    return this.#limiter.costLimits(call)
  }

  refund(target: string | Call): Promise<void> {
    return this.#limiter.refund(target)
  }

  reserve(call: Call, options?: ReserveOptions): Promise<Reservation> {
    const span = this.start({ 'sluice.reserve': true })
    const reservation = this.#limiter.reserve(call, options)
    return span === undefined ? reservation : endLater(span, reservation)
  }

  settle(reservation: string, actual: ActualCosts): Promise<Settlement> {
    return this.#limiter.settle(reservation, actual)
  }

  extend(reservation: string, attributes: CallAttributes): Promise<Reservation> {
    return this.#limiter.extend(reservation, attributes)
  }

  cancel(reservation: string): Promise<Settlement> {
    return this.#limiter.cancel(reservation)
  }

  reset(call: Call, options?: ResetOptions): Promise<void> {
    return this.#limiter.reset(call, options)
  }

  inspect(rule: string, call: Call): Promise<Inspection> {
    return this.#limiter.inspect(rule, call)
  }

  callers(call: Call): readonly InspectedCaller[] {
    return this.#limiter.callers(call)
  }

  setRules(rules: RulesInput, options?: RulesOptions): readonly Problem[] {
    return this.#limiter.setRules(rules, options)
  }

  setParsedRules(parsed: ParsedRules): readonly Problem[] {
    return this.#limiter.setParsedRules(parsed)
  }

  changeOverrides(changes: readonly OverrideChange[]): void {
    this.#limiter.changeOverrides(changes)
  }

  replaceOverrides(all: Iterable<OverrideChange>): void {
    this.#limiter.replaceOverrides(all)
  }

  ready(): Promise<void> {
    return this.#limiter.ready()
  }

  get isSync(): boolean {
    return this.#limiter.isSync
  }

  get countsMessages(): boolean {
    return this.#limiter.countsMessages
  }

  get hasDurable(): boolean {
    return this.#limiter.hasDurable
  }

  get warnings(): readonly Problem[] {
    return this.#limiter.warnings
  }

  get inFlight(): Limiter['inFlight'] {
    return this.#limiter.inFlight
  }

  get shedding(): SheddingStats | undefined {
    return this.#limiter.shedding
  }

  get reservations(): ReservationStats {
    return this.#limiter.reservations
  }

  get stats(): LimiterStats | undefined {
    return this.#limiter.stats
  }

  close(): Promise<void> {
    return this.#limiter.close()
  }

  private start(attributes?: Attributes): Span | undefined {
    return startSpan({ tracer: this.#tracer, parent: context.active(), attributes })
  }
}

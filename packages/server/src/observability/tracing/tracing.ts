/** Tracing with the OpenTelemetry API. Imported only if telemetry is on and the API installed. */
import { type IncomingMessage, validateHeaderName, validateHeaderValue } from 'node:http'
import {
  type Context,
  context,
  isSpanContextValid,
  metrics,
  propagation,
  ProxyTracerProvider,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  type TracerProvider,
  trace,
} from '@opentelemetry/api'
import type { Decision } from '@sluice/core'
import { traceDecision } from '@sluice/limiter/otel'
import type { FlatHeaders } from '../../entrypoints/http/responses.js'
import { RELEASE } from '../../generated/release.js'
import { bridgeMetrics } from './bridge-metrics.js'
import type { Telemetry, RequestTrace } from './telemetry.js'

const SCOPE = '@sluice/server'
const GATEWAY_SPAN = 'sluice.gateway'

export function createTelemetry(): Telemetry {
  // Fetched once: without an SDK the lookup would cost more than everything else here.
  const provider = trace.getTracerProvider()
  /** The tracer of the SDK, once one is registered. */
  let sdkTracer: Tracer | undefined
  const find = () => (sdkTracer ??= findTracer(provider))
  return {
    begin(request) {
      const tracer = find()
      return tracer && beginSpan(tracer, request)
    },
    follow(request) {
      const tracer = find()
      return tracer && new TracedRequest(tracer, contextOf(request), undefined)
    },
    bridge: (registry) => bridgeMetrics(registry, metrics.getMeter(SCOPE, RELEASE)),
  }
}

/** Returns undefined until an SDK is registered, because spans would go nowhere. */
function findTracer(provider: TracerProvider): Tracer | undefined {
  if (!(provider instanceof ProxyTracerProvider)) return provider.getTracer(SCOPE, RELEASE)
  return provider.getDelegateTracer(SCOPE, RELEASE)
}

/** The active span if the process is instrumented, otherwise the context from the headers. */
function contextOf(request: IncomingMessage): Context {
  const active = context.active()
  if (trace.getSpan(active) !== undefined) return active
  try {
    return propagation.extract(active, request.headers)
  } catch {
    // A propagator may throw on malformed headers.
    return active
  }
}

/** The headers that the propagator sets; none if it throws. */
function propagatedHeaders(
  traceContext: Context,
): readonly (readonly [name: string, value: string])[] {
  const carrier: Record<string, string> = {}
  try {
    propagation.inject(traceContext, carrier)
  } catch {
    return []
  }
  return Object.entries(carrier).filter(isHeader)
}

/** Some propagators decode received values and do not encode them again. */
function isHeader([name, value]: readonly [name: string, value: string]): boolean {
  try {
    validateHeaderName(name)
    validateHeaderValue(name, value)
    return true
  } catch {
    return false
  }
}

function beginSpan(tracer: Tracer, request: IncomingMessage): RequestTrace {
  const parent = contextOf(request)
  // An instrumented process already has a span for this request.
  const known = trace.getSpanContext(parent)
  if (known !== undefined && known.isRemote !== true) {
    return new TracedRequest(tracer, parent, undefined)
  }
  const { method = 'GET' } = request
  const attributes = { 'http.request.method': method }
  const span = tracer.startSpan(GATEWAY_SPAN, { kind: SpanKind.SERVER, attributes }, parent)
  return new TracedRequest(tracer, trace.setSpan(parent, span), span)
}

class TracedRequest implements RequestTrace {
  readonly #tracer: Tracer
  readonly #context: Context
  readonly #span: Span | undefined

  constructor(tracer: Tracer, traceContext: Context, span: Span | undefined) {
    this.#tracer = tracer
    this.#context = traceContext
    this.#span = span
  }

  decide<Decided extends Decision>(
    { entryPoint, isPeek = false }: Parameters<RequestTrace['decide']>[0],
    decide: () => Decided | Promise<Decided>,
  ): Decided | Promise<Decided> {
    const attributes = { 'sluice.way': entryPoint, ...(isPeek && { 'sluice.peek': true }) }
    return traceDecision({ tracer: this.#tracer, parent: this.#context, attributes }, decide)
  }

  inject(headers: FlatHeaders): FlatHeaders {
    const spanContext = trace.getSpanContext(this.#context)
    if (spanContext === undefined || !isSpanContextValid(spanContext)) return headers
    const propagated = propagatedHeaders(this.#context)
    const names = propagated.map(([name]) => name)
    const replaced = new Set([...propagation.fields(), ...names].map(lowerCase))
    const kept: FlatHeaders = []
    for (let i = 0; i < headers.length; i += 2) {
      const [name = '', value = ''] = [headers[i], headers[i + 1]]
      if (!replaced.has(lowerCase(name))) kept.push(name, value)
    }
    for (const [name, value] of propagated) kept.push(name, value)
    return kept
  }

  end(status: number | undefined): void {
    const span = this.#span
    if (span === undefined) return
    if (status !== undefined) span.setAttribute('http.response.status_code', status)
    if ((status ?? 0) >= 500) span.setStatus({ code: SpanStatusCode.ERROR })
    span.end()
  }
}

function lowerCase(name: string): string {
  return name.toLowerCase()
}

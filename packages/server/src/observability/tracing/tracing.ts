/** What loads the API of OpenTelemetry; it is imported only where that is wanted and there. */
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
import { RELEASE } from '../../lib/release.js'
import { bridgeMetrics } from './bridge-metrics.js'
import type { Telemetry, RequestTrace } from './telemetry.js'

const SCOPE = '@sluice/server'
const GATEWAY_SPAN = 'sluice.gateway'

export function createTelemetry(): Telemetry {
  // Asked for once: looking it up costs more than everything else does while there is no SDK.
  const provider = trace.getTracerProvider()
  /** Of the SDK, once there is one. */
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

/** Undefined: nobody has registered an SDK, so that every span would be for nothing. */
function findTracer(provider: TracerProvider): Tracer | undefined {
  if (!(provider instanceof ProxyTracerProvider)) return provider.getTracer(SCOPE, RELEASE)
  return provider.getDelegateTracer(SCOPE, RELEASE)
}

/** The span that is active already, where the process is instrumented; else what headers say. */
function contextOf(request: IncomingMessage): Context {
  const active = context.active()
  if (trace.getSpan(active) !== undefined) return active
  try {
    return propagation.extract(active, request.headers)
  } catch {
    // Whoever wrote the propagator did not think of every header that strangers send.
    return active
  }
}

/** What the propagator would send; nothing where it fails. */
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

/** Some propagators decode what strangers send, and do not encode it again. */
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
  // Where the process has made a span of this request itself, it needs no second one.
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

  decide(
    { entryPoint, isPeek = false }: Parameters<RequestTrace['decide']>[0],
    decide: () => Decision | Promise<Decision>,
  ): Decision | Promise<Decision> {
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

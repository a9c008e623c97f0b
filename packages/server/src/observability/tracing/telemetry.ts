/**
 * Spans and metrics for OpenTelemetry, if its API package is installed. The SDK is the user's;
 * until one is registered, a request costs one lookup and its headers pass unchanged.
 */
import type { IncomingMessage } from 'node:http'
import type { Decision } from '@sluice/core'
import type { EntryPoint } from '../../decide.js'
import type { FlatHeaders } from '../../entrypoints/http/responses.js'
import type { Log } from '../log/logger.js'
import { messageOf } from '../../lib/message-of.js'
import type { Registry } from '../metrics/registry.js'

/** The trace of one request. */
export interface RequestTrace {
  /** Decides within a span; synchronous if the decision is. */
  decide<Decided extends Decision>(
    details: TracedDecision,
    decide: () => Decided | Promise<Decided>,
  ): Decided | Promise<Decided>
  /** Adds the trace context to the headers for the upstream. */
  inject(headers: FlatHeaders): FlatHeaders
  /** Ends the span with the response status; undefined without a regular response. */
  end(status: number | undefined): void
}

interface TracedDecision {
  readonly entryPoint: EntryPoint
  readonly isPeek?: boolean | undefined
}

export interface Telemetry {
  /** Begins the span of a gateway request; undefined without an SDK. */
  begin(request: IncomingMessage): RequestTrace | undefined
  /** Traces only the decisions of a request, for the decision API. */
  follow(request: IncomingMessage): RequestTrace | undefined
  /** Exposes all metrics of the registry; returns the function that stops this. */
  bridge(registry: Pick<Registry, 'text'>): () => void
}

/** Returns undefined if telemetry is off or the API package is not installed. */
export async function openTelemetry(
  isWanted: boolean,
  log: Log,
  load: () => Promise<{ createTelemetry(): Telemetry }> = () => import('./tracing.js'),
): Promise<Telemetry | undefined> {
  if (!isWanted) return undefined
  try {
    const tracing = await load()
    return tracing.createTelemetry()
  } catch (error) {
    if (isAbsent(error)) {
      log.debug({}, 'OpenTelemetry disabled: @opentelemetry/api is not installed')
      return undefined
    }
    log.warn({ problem: messageOf(error) }, 'OpenTelemetry disabled: its API cannot be used')
    return undefined
  }
}

function isAbsent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND'
}

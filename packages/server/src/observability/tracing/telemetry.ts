/**
 * Spans and metrics for OpenTelemetry, through its API package where that is installed. The SDK is
 * the user's; until one is registered a request costs one look at the API, and its headers pass as
 * they came.
 */
import type { IncomingMessage } from 'node:http'
import type { Decision } from '@sluice/core'
import type { EntryPoint } from '../../decide.js'
import type { FlatHeaders } from '../../entrypoints/http/responses.js'
import type { Log } from '../log/logger.js'
import { messageOf } from '../../lib/message-of.js'
import type { Registry } from '../metrics/registry.js'

/** One request as traces see it. */
export interface RequestTrace {
  /** Decides within a span; at once, where the decision is. */
  decide(
    details: TracedDecision,
    decide: () => Decision | Promise<Decision>,
  ): Decision | Promise<Decision>
  /** Headers for the upstream, so that what it does is part of the same trace. */
  inject(headers: FlatHeaders): FlatHeaders
  /** Its answer is out, with this status; undefined: there was none, or no usual one. */
  end(status: number | undefined): void
}

interface TracedDecision {
  readonly entryPoint: EntryPoint
  readonly isPeek?: boolean | undefined
}

export interface Telemetry {
  /** A request of the gateway: a span from now to its `end`. Undefined: there is no SDK. */
  begin(request: IncomingMessage): RequestTrace | undefined
  /** A question that another program asks: only its decisions are spans. */
  follow(request: IncomingMessage): RequestTrace | undefined
  /** Tells all metrics of the registry; stops when the function is called that it returns. */
  bridge(registry: Pick<Registry, 'text'>): () => void
}

/** Undefined: not wanted, or the API package is not installed. */
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
      log.debug({}, 'no OpenTelemetry: @opentelemetry/api is not installed')
      return undefined
    }
    log.warn({ problem: messageOf(error) }, 'no OpenTelemetry: its API cannot be used')
    return undefined
  }
}

function isAbsent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND'
}

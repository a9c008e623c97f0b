/** What the answer to a request has besides the statuses: headers, a body, metadata. */
import {
  type Decision,
  flatRateLimitHeaders,
  PROBLEM_TYPE,
  problemObject,
  refusalResponse,
} from '@sluice/core'
import type { WallClock } from '../../lib/wall-clock.js'
import type { JsonObject, JsonValue, RateLimitRequest } from './rate-limit-messages.js'
import type { RequestDescriptor } from './request-descriptor.js'
import type { RateLimitServiceOptions } from './service-options.js'

interface ResponseParts {
  readonly headers: readonly string[]
  readonly body: string
}

export interface ResponseWriterDeps {
  readonly options: RateLimitServiceOptions
  /** For instants in headers. */
  readonly responseClock: WallClock
  /** From 0 to 1, for the jitter of refusals. */
  readonly random: () => number
}

const NO_HEADERS: readonly string[] = []
const NOTHING: ResponseParts = { headers: NO_HEADERS, body: '' }
const CONTENT_TYPE = ['content-type', PROBLEM_TYPE]

export class ResponseWriter {
  readonly #deps: ResponseWriterDeps

  constructor(deps: ResponseWriterDeps) {
    this.#deps = deps
  }

  /** `decision` is allowed if the request is. */
  write(
    decision: Decision,
    descriptors: readonly RequestDescriptor[],
    isRefused: boolean,
  ): ResponseParts {
    const { headers } = this.#deps.options
    if (headers.kind === 'none') return NOTHING
    if (headers.kind === 'reference')
      return { headers: referenceHeaders(headers, descriptors), body: '' }
    if (isRefused) return decision.allowed ? this.barred(descriptors) : this.refusal(decision)
    if (headers.kind === 'refusals') return NOTHING
    const { standard, legacy } = headers
    const nowMs = this.#deps.responseClock.now()
    return { headers: flatRateLimitHeaders(decision, { nowMs, standard, legacy }), body: '' }
  }

  /** A request that no counter refuses, but that has a descriptor which is refused without one. */
  private barred(descriptors: readonly RequestDescriptor[]): ResponseParts {
    for (const { problem } of descriptors) if (problem !== undefined) return undecidable(problem)
    for (const { kind, decision } of descriptors) {
      if (kind === 'refused' && decision !== undefined) return this.refusal(decision)
    }
    return unmatched()
  }

  private refusal(decision: Decision): ResponseParts {
    const { options, responseClock, random } = this.#deps
    const { refusals, headers } = options
    const { standard, legacy } =
      headers.kind === 'sluice' ? headers : { standard: false, legacy: false }
    const nowMs = responseClock.now()
    const { postureStatus, shedStatus, jitter } = refusals
    const fraction = random()
    // Field by field, which takes a fraction of the time of a spread.
    const settings = { nowMs, postureStatus, shedStatus, jitter, fraction, standard, legacy }
    const { headers: own, body } = refusalResponse(decision, settings)
    own.push(...CONTENT_TYPE)
    return { headers: own, body }
  }
}

/** A request with a descriptor that must match a limit, and matches none. */
function unmatched(): ResponseParts {
  const detail = 'This request matches no limit, and calls without a limit are not allowed.'
  return withoutLimit(detail, 'unmatched')
}

/** A request with a descriptor that cannot be decided; `problem` does not quote its values. */
function undecidable(problem: string): ResponseParts {
  return withoutLimit(`This request cannot be decided: ${problem}.`, 'invalid')
}

function withoutLimit(detail: string, error: string): ResponseParts {
  const problem = problemObject({ title: 'Too Many Requests', status: 429, detail, error })
  return {
    headers: ['Cache-Control', 'no-store', ...CONTENT_TYPE],
    body: JSON.stringify(problem),
  }
}

/**
 * The headers of envoyproxy/ratelimit: those of the limit with the least left, but each limit that
 * is over takes its place.
 */
function referenceHeaders(
  names: { readonly limit: string; readonly remaining: string; readonly reset: string },
  descriptors: readonly RequestDescriptor[],
): readonly string[] {
  let shown: RequestDescriptor['status'] | undefined
  for (const { status, selected } of descriptors) {
    if (status.currentLimit === undefined) continue
    const isOver = status.code === 'over-limit' && selected?.node.isQuota !== true
    const isLess = shown === undefined || status.limitRemaining < shown.limitRemaining
    if (isOver || isLess) shown = status
  }
  if (shown?.currentLimit === undefined) return NO_HEADERS
  return [
    names.limit,
    String(shown.currentLimit.requestsPerUnit),
    names.remaining,
    String(shown.limitRemaining),
    names.reset,
    String(shown.resetSeconds ?? 0),
  ]
}

/** The request, and what the configuration says of the limits that had room. */
export function metadataOf(
  { domain, descriptors, hitsAddend }: RateLimitRequest,
  described: readonly RequestDescriptor[],
): JsonObject {
  const shown = descriptors.map(({ entries, limit, hitsAddend: own }) => ({
    entries: entries.map(({ key, value }) => `${key}=${value}`),
    ...(limit && { limit: { requestsPerUnit: limit.requestsPerUnit, unit: limit.unit } }),
    ...(own !== undefined && { hitsAddend: own }),
  }))
  let metadata: JsonObject | undefined
  for (const { status, selected } of described) {
    const own = selected?.node.metadata
    if (own === undefined || status.code !== 'ok') continue
    metadata = metadata === undefined ? own : merged(metadata, own)
  }
  return {
    domain,
    descriptors: shown,
    ...(hitsAddend > 0 && { hitsAddend }),
    ...(metadata !== undefined && { metadata }),
  }
}

/** Merges two objects; of two values that are no objects the first stays. */
function merged(first: JsonObject, second: JsonObject): JsonObject {
  const all = new Map<string, JsonValue>(Object.entries(first))
  for (const [name, value] of Object.entries(second)) {
    const before = all.get(name)
    if (before === undefined) all.set(name, value)
    else if (isObject(before) && isObject(value)) all.set(name, merged(before, value))
  }
  return Object.fromEntries(all)
}

function isObject(value: JsonValue): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Notices common mistakes in the use of a middleware, cheaply enough for every request. */
import type { Call, Decision } from '@sluice/core'
import type { OwnedLimiter } from './own-limiter.js'
import type { WarningCode } from './warning-log.js'

interface DecidedRequest {
  readonly owner: OwnedLimiter
  readonly decision: Decision
}

/** All requests up to this many are in a sample, and after them so many of every period. */
const SAMPLED_FIRST = 1000
const SAMPLED_NEXT = 64
const SAMPLE_PERIOD = 4096

/**
 * Chooses the requests of a middleware in which mistakes are searched. A mistake in a program shows
 * in many of its requests, and to add a property to a request of Express costs more than to decide
 * it: each of these requests has a hidden class of its own. Those of a period follow each other,
 * because a request that is counted twice has to be in the sample both times.
 */
export class RequestSample {
  #seen = 0

  /** Counts a request; returns whether it is in the sample. */
  next(): boolean {
    const place = this.#seen++
    return place < SAMPLED_FIRST || place % SAMPLE_PERIOD < SAMPLED_NEXT
  }
}

/** The last decision about a request, kept on the request itself. */
const DECIDED: unique symbol = Symbol('sluice decision')

/** Remembers a decision on its request; returns the one before, of any middleware. */
export function markDecided(
  carrier: object & { [DECIDED]?: DecidedRequest },
  owner: OwnedLimiter,
  decision: Decision,
): DecidedRequest | undefined {
  const before = carrier[DECIDED]
  carrier[DECIDED] = { owner, decision }
  return before
}

/** A rule that both decisions counted in the same counters; undefined if there is none. */
export function findSharedCounters(a: DecidedRequest, b: DecidedRequest): string | undefined {
  if (a.owner.counters !== b.owner.counters) return undefined
  const rules = new Set<string>()
  a.decision.eachRule((rule) => rules.add(rule))
  let shared: string | undefined
  b.decision.eachRule((rule) => {
    if (rule !== '' && rules.has(rule)) shared ??= rule
  })
  return shared
}

/** A call that matches no rule is often meant so: after as many, nothing more is looked for. */
const SUSPICIONS_MAX = 100

let suspicions = 0

/** Reports, later, a rule that did not count this call only because an attribute is absent. */
export function suspectNoCaller(
  { explain }: OwnedLimiter,
  call: Call,
  report: (subject: string) => void,
): void {
  if (explain === undefined || suspicions >= SUSPICIONS_MAX) return
  suspicions++
  explain(call).then(
    (explained) => {
      const lacking = explained.explain?.find(({ why }) => why?.startsWith('it counts by '))
      if (lacking !== undefined) report(`rule ${lacking.rule}: ${lacking.why}`)
    },
    () => {},
  )
}

/** The function in which Node calls the handler of a request: see its file `_http_server.js`. */
const NODE_REQUEST = 'parserOnIncoming'
const FRAMES_MAX = 100

/** Warns if a middleware is created while a request is being served. */
export function checkCreation(warn: (code: WarningCode) => void): void {
  const before = Error.stackTraceLimit
  Error.stackTraceLimit = FRAMES_MAX
  const { stack = '' } = new Error('created here')
  Error.stackTraceLimit = before
  if (stack.includes(NODE_REQUEST)) warn('created-in-handler')
}

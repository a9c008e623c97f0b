/** Notices common mistakes in the use of a middleware, cheaply enough for every request. */
import type { Call, Decision } from '@sluice/core'
import type { OwnedLimiter } from './own-limiter.js'
import type { WarningCode } from './warning-log.js'

interface DecidedRequest {
  readonly owner: OwnedLimiter
  readonly decision: Decision
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

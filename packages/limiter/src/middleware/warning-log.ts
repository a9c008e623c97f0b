/**
 * Warnings about likely mistakes in the use of a middleware. Each has a code, and a section of
 * that name in docs/guides/middleware-warnings.md; a test keeps the two equal.
 */

const WARNINGS = {
  'trusts-all-proxies':
    'the framework trusts every proxy, so that a caller can name any address; ' +
    'set trustedProxies to the networks of your proxies',
  'forwarded-ignored':
    'calls come with X-Forwarded-For and no proxy is trusted, so that all clients of a proxy ' +
    'share its address; set trustedProxies, or address',
  'no-address':
    'a rule counts by ip and this runtime has no socket; set address to where the address is',
  'no-caller':
    'no rule counted a call, since it lacks the attribute that a rule counts by; ' +
    'return it from attributes',
  'counted-twice':
    'two middlewares counted the same request in the same counters; use one of them for it',
  'created-in-handler':
    'a middleware was created while a request was served, so that its counters begin anew ' +
    'each time; create it once, at the start',
  'shared-store':
    'two middlewares use one store and define a rule of the same id differently, so that they ' +
    'share counters of different limits; give the rules different ids',
  'shed-without-load':
    'the rules have shed and nothing tells how busy the process is, so that no call is shed; ' +
    'set load, as to loopLoad().load of @sluice/limiter/node',
  'memory-workers':
    'counters are in the memory of one of several workers, so that each limit holds once for ' +
    'every worker; use the Redis store',
} as const

export type WarningCode = keyof typeof WARNINGS

export const WARNING_CODES = Object.keys(WARNINGS) as readonly WarningCode[]

/** Where each code is explained, from the root of the repository. */
const PAGE = 'docs/guides/middleware-warnings.md'

/** Remembers which warnings were logged. */
export class WarningLog {
  readonly #logged = new Set<WarningCode>()

  /** Whether a warning was logged already, so that nothing has to be found out. */
  has(code: WarningCode): boolean {
    return this.#logged.has(code)
  }

  /** Logs a warning unless it was logged before. `subject` says what it is about. */
  log(code: WarningCode, logger: { warn(message: string): void }, subject = ''): void {
    if (this.#logged.has(code)) return
    this.#logged.add(code)
    const about = subject === '' ? '' : ` (${subject})`
    logger.warn(`sluice: ${WARNINGS[code]}${about} [${code}, ${PAGE}#${code}]`)
  }
}

/** One for the process: a warning is about the program, not about one middleware. */
export const processWarnings = new WarningLog()

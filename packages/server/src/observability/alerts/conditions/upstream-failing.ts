/** Upstreams that leave too many of the calls unanswered that the gateway admitted. */
import type { Finding } from '../alert.js'
import { FailureShares } from './failure-shares.js'

/**
 * More than 5 % of a minute's calls, and at least ten: a restart of one of several servers behind
 * an origin breaks off a few calls, and callers repeat those.
 */
const SHORT = { seconds: 60, least: 10, share: 0.05 }
/** One that is called seldom: most calls of a quarter of an hour, in three minutes at least. */
const LONG = { minutes: 15, leastMinutes: 3, share: 0.5 }

/** What one upstream did since the start. */
export interface UpstreamCounts {
  /** As it is configured: scheme, host and port. */
  readonly origin: string
  /** Calls that were sent to it, or would have been. */
  readonly calls: number
  readonly failures: number
  /** Of the last failure; empty before the first. */
  readonly lastCode: string
}

export class UpstreamFailures {
  readonly #shares = new FailureShares({ short: SHORT, long: LONG })

  /** Once a second. */
  evaluate(upstreams: Iterable<UpstreamCounts>): readonly Finding[] {
    this.#shares.nextSecond()
    const found: Finding[] = []
    for (const { origin, calls, failures, lastCode } of upstreams) {
      const { tooMany: share } = this.#shares.record(origin, calls, failures)
      if (share === undefined) continue
      const text = (does: string) =>
        `Upstream ${origin} ${does} ${share.failures} of ${share.calls} calls of the last ` +
        `${share.over}; the last failure was ${lastCode}.`
      found.push({
        subject: origin,
        summary: text('does not answer'),
        past: text('did not answer'),
        details: {
          upstream: origin,
          calls: share.calls,
          failures: share.failures,
          code: lastCode,
        },
      })
    }
    return found
  }
}

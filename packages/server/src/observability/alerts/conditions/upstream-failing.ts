/** Finds upstreams that fail too many of the calls that the gateway admitted. */
import type { Finding } from '../alert.js'
import { FailureShares } from './failure-shares.js'

/**
 * More than 5 % of a minute's calls, and at least ten: a restart of one of several servers behind
 * an origin fails a few calls, and callers retry those.
 */
const SHORT = { seconds: 60, least: 10, share: 0.05 }
/** For rarely called upstreams: most calls of a quarter of an hour, in at least three minutes. */
const LONG = { minutes: 15, leastMinutes: 3, share: 0.5 }

/** Counts of one upstream since the start. */
export interface UpstreamCounts {
  /** Scheme, host and port, as configured. */
  readonly origin: string
  /** Includes calls that failed before they were sent. */
  readonly calls: number
  readonly failures: number
  /** The code of the last failure; empty before the first. */
  readonly lastCode: string
}

export class UpstreamFailures {
  readonly #shares = new FailureShares({ short: SHORT, long: LONG })

  /** Called once a second. */
  evaluate(upstreams: Iterable<UpstreamCounts>): readonly Finding[] {
    this.#shares.nextSecond()
    const found: Finding[] = []
    for (const { origin, calls, failures, lastCode } of upstreams) {
      const { tooMany: share } = this.#shares.record(origin, calls, failures)
      if (share === undefined) continue
      const text = (does: string) =>
        `Upstream ${origin} ${does} ${share.failures} of ${share.calls} calls in the last ` +
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

/**
 * Counts the calls and the failures of each upstream, and logs failures: the first of an upstream,
 * status and code in a second is a line, the others of that second are counted.
 */
import type { UpstreamCounts } from '../../observability/alerts/conditions/upstream-failing.js'
import type { WallClock } from '../../lib/wall-clock.js'
import type { Upstream } from '../../config/config.js'
import { CountedLines } from '../../observability/log/counted-lines.js'
import type { Log } from '../../observability/log/logger.js'
import type { Counter, Registry } from '../../observability/metrics/registry.js'
import type { UpstreamFailure } from './forward.js'

const STATUSES = [502, 503, 504] as const satisfies UpstreamFailure['status'][]

export interface UpstreamHealthDeps {
  readonly upstreams: readonly Upstream[]
  readonly registry: Registry
  readonly log: Pick<Log, 'offer'>
  readonly clock: WallClock
  /** 0: no timer, a test calls `tick`. @default 1000 */
  readonly sweepMs?: number | undefined
}

interface Counts {
  readonly origin: string
  calls: number
  failures: number
  lastCode: string
}

export class UpstreamHealth {
  /** By origin; several prefixes may share one. */
  readonly #upstreams: ReadonlyMap<string, Counts>
  readonly #failures: Counter
  readonly #lines: CountedLines<UpstreamFailure>

  constructor({ upstreams, registry, log, clock, sweepMs }: UpstreamHealthDeps) {
    this.#upstreams = new Map(
      upstreams.map(({ origin }) => [origin, { origin, calls: 0, failures: 0, lastCode: '' }]),
    )
    this.#failures = registry.counter(
      'sluice_upstream_failures_total',
      'Calls that an upstream did not answer, by the status they got.',
      ['upstream', 'status'],
    )
    // Starts at 0: if a series began with the first failure, an increase would not show it.
    for (const origin of this.#upstreams.keys()) {
      for (const status of STATUSES) this.#failures.labels(origin, String(status)).inc(0)
    }
    registry.total(
      'sluice_upstream_calls_total',
      'Calls that were admitted and are for an upstream, WebSocket upgrades included.',
      () => [...this.#upstreams.values()].map(({ origin, calls }) => [[origin], calls]),
      { labelNames: ['upstream'] },
    )
    this.#lines = new CountedLines({
      log,
      clock,
      level: 'warn',
      sweepMs,
      repeat: {
        message: 'upstream: calls failed again',
        fields: (upstream, { status, code }) => ({ upstream, status, code }),
      },
    })
  }

  /** Counts a call that is about to be sent. */
  recordCall(origin: string): void {
    const counts = this.#upstreams.get(origin)
    if (counts !== undefined) counts.calls++
  }

  /** Counts and logs a call that the upstream did not answer. */
  recordFailure(origin: string, failure: UpstreamFailure): void {
    const { status, code } = failure
    const counts = this.#upstreams.get(origin)
    if (counts === undefined) return
    counts.failures++
    counts.lastCode = `${status} ${code}`
    this.#failures.labels(origin, String(status)).inc()
    const name = counts.lastCode
    const counted = this.#lines.count(origin, name)
    if (counted === undefined) return
    const { due } = counted === 'new' ? this.#lines.begin(origin, name, failure) : counted
    const fields = { upstream: origin, status, code, rest: due }
    this.#lines.write(fields, 'upstream: a call failed', due + 1)
  }

  counts(): Iterable<UpstreamCounts> {
    return this.#upstreams.values()
  }

  /** Logs the counts of past seconds. */
  tick(): void {
    this.#lines.tick()
  }

  /** Failures without a log line. */
  dropped(): number {
    return this.#lines.dropped()
  }

  close(): void {
    this.#lines.close()
  }
}

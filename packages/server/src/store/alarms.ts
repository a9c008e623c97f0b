/**
 * What must not go unseen, as two log lines: one when it begins, one when it is over. Between them
 * the metrics tell how it goes.
 */
import type { RedisStats } from '@sluice/limiter/redis'
import type { WallClock } from '../clock.js'
import type { Log, LogFields } from '../log/logger.js'
import type { DecisionMetrics } from '../metrics/decisions.js'

/** Decisions by posture, of all that a rule made in ten seconds. */
const DEGRADED_SHARE_MAX = 0.001
const SECONDS = 10
/** Times that a node must place itself would be off by as much. */
const CLOCK_SECONDS_MAX = 0.02
const NAMES_SHOWN_MAX = 10

type AlarmName = 'degraded' | 'breaker' | 'clock'

export interface AlarmParts {
  readonly log: Log
  readonly clock: WallClock
  readonly metrics: Pick<DecisionMetrics, 'eachRule'>
}

export class Alarms {
  readonly #parts: AlarmParts
  readonly #shares = new DegradedShares()
  /** When those that are raised were. */
  readonly #raised = new Map<AlarmName, number>()

  constructor(parts: AlarmParts) {
    this.#parts = parts
  }

  /** Once a second. */
  tick({ nodes }: RedisStats): void {
    const rules = this.#shares.tick(this.#parts.metrics)
    this.tell('degraded', rules.length, () => ({ rules: rules.slice(0, NAMES_SHOWN_MAX) }))
    const open = nodes.filter(({ isBreakerOpen }) => isBreakerOpen)
    this.tell('breaker', open.length, () => ({ stores: addressesOf(open) }))
    const off = nodes.filter(({ clock }) => isOff(clock?.offsetSeconds))
    this.tell('clock', off.length, () => ({
      stores: addressesOf(off),
      offsetSeconds: off[0]?.clock?.offsetSeconds,
    }))
  }

  /** A breaker may close again before the next second. */
  breakerOpened(store: string): void {
    this.tell('breaker', 1, () => ({ stores: [store] }))
  }

  private tell(alarm: AlarmName, count: number, about: () => LogFields): void {
    const { log, clock } = this.#parts
    const sinceMs = this.#raised.get(alarm)
    if (count > 0 === (sinceMs !== undefined)) return
    const nowMs = clock.now()
    if (sinceMs === undefined) {
      this.#raised.set(alarm, nowMs)
      log.error({ alarm, count, ...about() }, 'alarm')
    } else {
      this.#raised.delete(alarm)
      log.info({ alarm, lastedMs: nowMs - sinceMs }, 'alarm over')
    }
  }
}

/** Which rules made too many of their last decisions by posture. */
class DegradedShares {
  /** By rule, what it had made at the end of each of the last seconds; nothing before them. */
  readonly #history = new Map<string, { readonly decisions: Ring; readonly degraded: Ring }>()
  #second = 0

  /** The metrics bound how many rules there are. */
  tick(metrics: Pick<DecisionMetrics, 'eachRule'>): readonly string[] {
    this.#second++
    const found: string[] = []
    metrics.eachRule((rule, decisions, degraded) => {
      const known = this.#history.get(rule) ?? { decisions: makeRing(), degraded: makeRing() }
      this.#history.set(rule, known)
      const made = this.turn(known.decisions, decisions)
      const badly = this.turn(known.degraded, degraded)
      if (badly > made * DEGRADED_SHARE_MAX) found.push(rule)
    })
    return found
  }

  /** Puts a count in, and returns by how much it has grown in ten seconds. */
  private turn(ring: Ring, count: number): number {
    ring[this.#second % ring.length] = count
    return count - (ring[(this.#second + 1) % ring.length] ?? 0)
  }
}

type Ring = Float64Array

function makeRing(): Ring {
  return new Float64Array(SECONDS + 1)
}

function isOff(seconds: number | undefined): boolean {
  return seconds !== undefined && Math.abs(seconds) > CLOCK_SECONDS_MAX
}

function addressesOf(nodes: RedisStats['nodes']): readonly string[] {
  return nodes.slice(0, NAMES_SHOWN_MAX).map(({ address }) => address)
}

/** Finds rules that made too many recent decisions by posture, and a missed availability target. */
import type { Finding } from '../alert.js'
import { FailureShares } from './failure-shares.js'
import { ConsecutiveFindings } from './consecutive-findings.js'
import { RecentCounts } from './recent-counts.js'

/**
 * More than 0.1 % of a rule's decisions in ten seconds, and at least ten of them: a short pause of
 * Redis or of this process delays a few decisions and needs no action.
 */
const SHORT = { seconds: 10, least: 10, share: 0.001 }
/**
 * For rules that decide rarely, or rarely by posture, and never reach ten in ten seconds. Three
 * affected minutes in a quarter of an hour are more than a single pause; a tenth of the decisions,
 * or a hundredth and at least ten, are no coincidence.
 */
const LONG = {
  minutes: 15,
  leastMinutes: 3,
  share: 0.1,
  many: { least: 10, share: 0.01, lastMinutes: 5 },
}

/** More than one in this many decisions of five minutes; with few decisions, one means nothing. */
const DECISIONS_PER_DEGRADED = 10_000
const AVAILABILITY_SECONDS = 300
const DECISIONS_MIN = 1000

/**
 * Consecutive ticks before either is an alert: a store that is down is found within three seconds
 * of the first decision by posture, and is reported as the cause instead.
 */
const CONSECUTIVE_MIN = 4

/** Takes the counts of each rule since the start, once a second. */
export class DegradedShares {
  readonly #shares = new FailureShares({ short: SHORT, long: LONG })
  readonly #streaks = new ConsecutiveFindings(CONSECUTIVE_MIN)
  #findings: Finding[] = []
  #hasImpact = false
  /** Rules that decided by posture within the short window, with their counts since the start. */
  #recent = new Map<string, number>()

  /** Called before the counts of a second are recorded. */
  nextSecond(): void {
    this.#shares.nextSecond()
    this.begin()
  }

  /** Called before the counts are recorded again within the same second. */
  begin(): void {
    this.#findings = []
    this.#hasImpact = false
    this.#recent = new Map()
  }

  record(rule: string, decisions: number, degraded: number): void {
    const { recent, tooMany } = this.#shares.record(rule, decisions, degraded)
    if (recent > 0) this.#recent.set(rule, degraded)
    if (tooMany === undefined) return
    if (recent > 0) this.#hasImpact = true
    const { calls, failures, over } = tooMany
    this.#findings.push({
      subject: rule,
      summary:
        `Rule "${rule}" made ${percent(failures / calls)} of its decisions of the last ` +
        `${over} by its posture, because the store did not answer.`,
      details: { rule, decisions: calls, degraded: failures },
    })
  }

  /** Whether recent decisions put any rule over its bounds, even if only for one tick. */
  get hasImpact(): boolean {
    return this.#hasImpact
  }

  /** The rules that recently decided by posture. */
  recentRules(): Iterable<string> {
    return this.#recent.keys()
  }

  /** Ignores everything recorded so far, because another alert reports the cause. */
  forget(): void {
    for (const [rule, degraded] of this.#recent) this.#shares.forget(rule, degraded)
    this.#findings = []
  }

  /** Once a second, after all counts are recorded. */
  findings(): readonly Finding[] {
    return this.#streaks.record(this.#findings)
  }
}

export class Availability {
  readonly #counts = new RecentCounts(AVAILABILITY_SECONDS)
  readonly #streaks = new ConsecutiveFindings(CONSECUTIVE_MIN)
  #findings: readonly Finding[] = []
  #degraded = 0

  /** Called before the counts of a second are recorded. */
  nextSecond(): void {
    this.#counts.nextSecond()
  }

  /** Takes the counts, since the start, of calls that matched a rule. */
  record(decisions: number, degraded: number): void {
    this.#degraded = degraded
    const decisionCount = this.#counts.record('decisions', decisions)
    const degradedCount = this.#counts.record('degraded', degraded)
    const isBad =
      decisionCount >= DECISIONS_MIN && degradedCount * DECISIONS_PER_DEGRADED > decisionCount
    if (!isBad) {
      this.#findings = []
      return
    }
    const summary =
      `${percent(1 - degradedCount / decisionCount)} of all decisions of the last five minutes were made ` +
      'normally, not by posture; the target is 99.99 %.'
    this.#findings = [
      { subject: '', summary, details: { decisions: decisionCount, degraded: degradedCount } },
    ]
  }

  /** Whether availability is below the target, even if only for one tick. */
  get hasImpact(): boolean {
    return this.#findings.length > 0
  }

  /** Ignores everything recorded so far, because another alert reports the cause. */
  forget(): void {
    this.#counts.restart('degraded', this.#degraded)
    this.#findings = []
  }

  /** Called once a second, after the counts are recorded. */
  findings(): readonly Finding[] {
    return this.#streaks.record(this.#findings)
  }
}

/** Rounds down, so that less than 100 % never reads as 100 %. */
function percent(share: number): string {
  return `${Math.floor(share * 100_000) / 1000} %`
}

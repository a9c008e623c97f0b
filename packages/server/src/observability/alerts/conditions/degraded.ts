/** Which rules made too many of their last decisions by posture, and whether all together did. */
import type { Finding } from '../alert.js'
import { FailureShares } from './failure-shares.js'
import { ConsecutiveFindings } from './consecutive-findings.js'
import { RecentCounts } from './recent-counts.js'

/**
 * More than 0.1 % of a rule's decisions of ten seconds, and at least ten of them: a pause of Redis
 * or of this process makes a few decisions late and has passed when somebody looks.
 */
const SHORT = { seconds: 10, least: 10, share: 0.001 }
/**
 * A rule that decides once a minute, or some times a second and now and then by posture, never has
 * ten in ten seconds. In three minutes of a quarter of an hour it was no single pause; and more
 * than a tenth of its decisions, or a hundredth and ten of them, are no chance.
 */
const LONG = {
  minutes: 15,
  leastMinutes: 3,
  share: 0.1,
  many: { least: 10, share: 0.01, lastMinutes: 5 },
}

/** Of all decisions in five minutes one in so many; where there are few, one says nothing. */
const DECISIONS_PER_DEGRADED = 10_000
const AVAILABILITY_SECONDS = 300
const DECISIONS_MIN = 1000

/**
 * Looks in a row before either is an alert: a store that is down is found out within three seconds
 * of the first decision by posture, and is told as the cause instead.
 */
const CONSECUTIVE_MIN = 4

/** Fed with the counts since the start, of each rule once a second. */
export class DegradedShares {
  readonly #shares = new FailureShares({ short: SHORT, long: LONG })
  readonly #streaks = new ConsecutiveFindings(CONSECUTIVE_MIN)
  #findings: Finding[] = []
  #hasImpact = false
  /** Rules that decided by posture within the short window, with their counts since the start. */
  #recent = new Map<string, number>()

  /** Before the counts of a second are recorded. */
  nextSecond(): void {
    this.#shares.nextSecond()
    this.begin()
  }

  /** Before the counts are recorded again within the same second. */
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

  /** Whether any rule is over its bounds, for however short a time, by what it decided lately. */
  get hasImpact(): boolean {
    return this.#hasImpact
  }

  /** The rules that decided by posture lately. */
  recentRules(): Iterable<string> {
    return this.#recent.keys()
  }

  /** Leaves out all that was recorded so far, because an alert tells of its cause. */
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

  /** Before the counts of a second are recorded. */
  nextSecond(): void {
    this.#counts.nextSecond()
  }

  /** Takes in the calls since the start that a rule spoke of. */
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
      `${percent(1 - degradedCount / decisionCount)} of all decisions of the last five minutes were answered ` +
      'normally, not by posture; 99.99 % is the promise.'
    this.#findings = [
      { subject: '', summary, details: { decisions: decisionCount, degraded: degradedCount } },
    ]
  }

  /** Whether it is below the promise, for however short a time. */
  get hasImpact(): boolean {
    return this.#findings.length > 0
  }

  /** Leaves out all that was recorded so far, because an alert tells of its cause. */
  forget(): void {
    this.#counts.restart('degraded', this.#degraded)
    this.#findings = []
  }

  /** Once a second, after the counts are recorded. */
  findings(): readonly Finding[] {
    return this.#streaks.record(this.#findings)
  }
}

/** Never rounded up to 100, of what is less. */
function percent(share: number): string {
  return `${Math.floor(share * 100_000) / 1000} %`
}

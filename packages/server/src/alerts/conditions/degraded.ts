/** Which rules made too many of their last decisions by posture, and whether all together did. */
import type { Finding } from '../alert.js'
import { RecentCounts } from './recent-counts.js'

/** Of the decisions that a rule made in ten seconds. */
const DEGRADED_SHARE_MAX = 0.001
const SECONDS = 10

/** Of all decisions in five minutes one in so many; where there are few, one says nothing. */
const DECISIONS_PER_DEGRADED = 10_000
const AVAILABILITY_SECONDS = 300
const DECISIONS_MIN = 1000

/** Fed with the counts since the start, of each rule once a second. */
export class DegradedShares {
  readonly #decisions = new RecentCounts(SECONDS)
  readonly #degraded = new RecentCounts(SECONDS)
  #found: Finding[] = []

  nextSecond(): void {
    this.#decisions.nextSecond()
    this.#degraded.nextSecond()
    this.#found = []
  }

  saw(rule: string, decisions: number, degraded: number): void {
    const made = this.#decisions.turn(rule, decisions)
    const badly = this.#degraded.turn(rule, degraded)
    if (badly <= made * DEGRADED_SHARE_MAX) return
    this.#found.push({
      subject: rule,
      summary:
        `Rule "${rule}" made ${percent(badly / made)} of its decisions of the last ` +
        `${SECONDS} s by its posture, because the store did not answer.`,
      details: { rule, decisions: made, degraded: badly },
    })
  }

  findings(): readonly Finding[] {
    return this.#found
  }
}

export class Availability {
  readonly #counts = new RecentCounts(AVAILABILITY_SECONDS)

  /** Once a second, with the calls since the start that a rule spoke of. */
  tick(decisions: number, degraded: number): readonly Finding[] {
    this.#counts.nextSecond()
    const made = this.#counts.turn('decisions', decisions)
    const badly = this.#counts.turn('degraded', degraded)
    if (made < DECISIONS_MIN || badly * DECISIONS_PER_DEGRADED <= made) return []
    const summary =
      `${percent(1 - badly / made)} of all decisions of the last five minutes were answered ` +
      'normally, not by posture; 99.99 % is the promise.'
    return [{ subject: '', summary, details: { decisions: made, degraded: badly } }]
  }
}

/** Never rounded up to 100, of what is less. */
function percent(share: number): string {
  return `${Math.floor(share * 100_000) / 1000} %`
}

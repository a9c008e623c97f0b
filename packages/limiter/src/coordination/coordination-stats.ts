/** Statistics by rule, kept by each coordination mode for metrics. */
import type { CoordinationStats } from './node-decider.js'

export type MutableCoordinationStats = {
  -readonly [Stat in keyof CoordinationStats]: CoordinationStats[Stat]
}

/** The most rules with statistics; beyond that the oldest are dropped. */
const RULES_MAX = 20_000

export class StatsByRule {
  readonly #byRule = new Map<string, MutableCoordinationStats>()

  get all(): ReadonlyMap<string, CoordinationStats> {
    return this.#byRule
  }

  get(rule: string): MutableCoordinationStats {
    const known = this.#byRule.get(rule)
    if (known !== undefined) return known
    const made = emptyStats()
    this.#byRule.set(rule, made)
    const [oldest] = this.#byRule.keys()
    if (this.#byRule.size > RULES_MAX && oldest !== undefined) this.#byRule.delete(oldest)
    return made
  }
}

export function emptyStats(): MutableCoordinationStats {
  return {
    draws: 0,
    drawn: 0,
    spent: 0,
    givenBack: 0,
    lost: 0,
    held: 0,
    reported: 0,
    unreported: 0,
    overAdmitted: 0,
    counters: 0,
  }
}

/** Sums by rule, made by each way of coordination for metrics. */
import type { HereStats } from './here.js'

export type Tally = { -readonly [Sum in keyof HereStats]: HereStats[Sum] }

/** Rules change, and their sums with them; beyond so many the oldest go. */
const RULES_MAX = 20_000

export class Tallies {
  readonly #byRule = new Map<string, Tally>()

  get all(): ReadonlyMap<string, HereStats> {
    return this.#byRule
  }

  of(rule: string): Tally {
    const known = this.#byRule.get(rule)
    if (known !== undefined) return known
    const made = emptyTally()
    this.#byRule.set(rule, made)
    const [oldest] = this.#byRule.keys()
    if (this.#byRule.size > RULES_MAX && oldest !== undefined) this.#byRule.delete(oldest)
    return made
  }
}

export function emptyTally(): Tally {
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

/** Which rules answered by posture since a store is down, as the alert of that store tells it. */
import type { Alert } from '../alert.js'
import { RULES_MAX } from './recent-counts.js'

/** Rules that are named in the details; all are counted. */
const NAMED_MAX = 20

export interface AffectedRules {
  /** The end of a sentence about a store that is down. */
  readonly present: string
  /** The same when it is over. */
  readonly past: string
  readonly details: Alert['details']
}

export const NO_RULES: AffectedRules = {
  present: 'rules answer by their posture',
  past: 'rules answered by their posture',
  details: {},
}

/** Collects rules for as long as a store is down. */
export class AffectedRuleSet {
  readonly #rules = new Set<string>()

  add(rules: Iterable<string>): void {
    for (const rule of rules) if (this.#rules.size < RULES_MAX) this.#rules.add(rule)
  }

  clear(): void {
    this.#rules.clear()
  }

  describe(): AffectedRules {
    const count = this.#rules.size
    if (count === 0) return NO_RULES
    const [one, have, their] = count === 1 ? ['rule', 'has', 'its'] : ['rules', 'have', 'their']
    return {
      present: `${count} ${one} ${have} answered by ${their} posture so far`,
      past: `${count} ${one} answered by ${their} posture`,
      details: { rules: count, affected: [...this.#rules].slice(0, NAMED_MAX) },
    }
  }
}

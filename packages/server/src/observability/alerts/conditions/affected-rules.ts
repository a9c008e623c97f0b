/** The rules that decided by posture since the store went down, for the alert about the store. */
import type { Alert } from '../alert.js'
import { RULES_MAX } from './recent-counts.js'

/** Rules named in the details; the count covers all of them. */
const NAMED_MAX = 20

export interface AffectedRules {
  /** Completes a sentence about a store that is down. */
  readonly present: string
  /** The same for a store that was down. */
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

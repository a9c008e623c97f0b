/** Limits that were parsed for overrides of a rule without a problem: many callers share a few. */
import type { LimitSpec } from '../limit.js'
import type { Rule } from './rule.js'

/** More different lists of one rule are parsed again. */
const LISTS_MAX = 1000

export class OverrideLimitLists {
  readonly #byRule = new WeakMap<Rule, Map<string, readonly LimitSpec[]>>()

  /** `text` is the same for equal lists. */
  get(rule: Rule, text: string): readonly LimitSpec[] | undefined {
    return this.#byRule.get(rule)?.get(text)
  }

  store(rule: Rule, text: string, limits: readonly LimitSpec[]): void {
    const lists = this.#byRule.get(rule) ?? new Map<string, readonly LimitSpec[]>()
    if (lists.size >= LISTS_MAX) lists.clear()
    this.#byRule.set(rule, lists.set(text, limits))
  }
}

/** Computes whether one call could match more limits than a decision allows. */
import { changedRange } from '../rules/list-diff.js'
import type { Rule, RuleSet, Tiers } from '../rules/rule.js'
import { type RuleWeight, LimitWeights } from './limit-weights.js'
import { filingOf, type AttributeVariety } from './compiled-match.js'
import { MatchCache } from './match-cache.js'

export const LIMITS_PER_CALL_MAX = 64

/**
 * Returns the most limits one call could match; Infinity if too many patterns overlap. Rules that
 * exclude each other only by conditions they are not indexed by, such as excluded values, are
 * counted together, so the result may be too high, never too low.
 */
export function maxLimitsPerCall(set: RuleSet, matches = new MatchCache()): number {
  return new MaxLimitsCache(matches).maxLimits(set)
}

/** Computes `maxLimitsPerCall` for one set after another, from what differs between them. */
export class MaxLimitsCache {
  readonly #matches: MatchCache
  #last: SetWeights | undefined

  constructor(matches = new MatchCache()) {
    this.#matches = matches
  }

  maxLimits({ rules, strictPaths }: RuleSet): number {
    const last = this.#last
    // An exception leaves a mixture of both sets.
    this.#last = undefined
    const setWeights =
      last?.strictPaths === strictPaths ? last : new SetWeights(strictPaths, this.#matches)
    setWeights.update(rules)
    const most = setWeights.weights.maxLimits()
    this.#last = setWeights
    return most
  }
}

class SetWeights {
  readonly strictPaths: boolean
  readonly weights: LimitWeights
  readonly #matches: MatchCache
  #rules: readonly Rule[] = []
  readonly #weightOf = new Map<Rule, RuleWeight>()
  /** By attribute, how many rules name each value. */
  readonly #values = new Map<string, Map<string, number>>()
  /** Rules that could be indexed by several conditions. */
  readonly #undecided = new Set<Rule>()
  #ranking = ''

  constructor(strictPaths: boolean, matches: MatchCache) {
    this.strictPaths = strictPaths
    this.#matches = matches
    this.weights = new LimitWeights(strictPaths)
  }

  update(rules: readonly Rule[]): void {
    const range = changedRange(this.#rules, rules)
    const [was, is] = [new Set(range.before), new Set(range.after)]
    const added = range.after.filter((rule) => !was.has(rule))
    for (const rule of range.before) if (!is.has(rule)) this.remove(rule)
    for (const rule of added) this.count(rule, 1)
    const variety = new Map(Array.from(this.#values, ([name, values]) => [name, values.size]))
    for (const rule of added) if (rule.mode !== 'off') this.file(rule, variety)
    // Copied, because the caller may change its list.
    this.#rules = [...rules]
    const ranking = rankingOf(variety)
    if (ranking === this.#ranking) return
    this.#ranking = ranking
    for (const rule of this.#undecided) this.file(rule, variety)
  }

  /** Indexes a rule for the first time, or again if another attribute became more selective. */
  private file(rule: Rule, variety: AttributeVariety): void {
    const { pattern, methods, conditions } = this.#matches.compiledMatch(rule)
    const { filedUnder } = filingOf(conditions, variety)
    const before = this.#weightOf.get(rule)
    if (before !== undefined) {
      if (before.filedUnder === filedUnder) return
      this.weights.remove(before)
    }
    const ruleWeight = { pattern, methods, filedUnder, weight: weightOf(rule) }
    this.weights.add(ruleWeight)
    this.#weightOf.set(rule, ruleWeight)
    if (conditions.length > 1) this.#undecided.add(rule)
  }

  private remove(rule: Rule): void {
    this.count(rule, -1)
    const ruleWeight = this.#weightOf.get(rule)
    if (ruleWeight !== undefined) this.weights.remove(ruleWeight)
    this.#weightOf.delete(rule)
    this.#undecided.delete(rule)
  }

  private count(rule: Rule, sign: 1 | -1): void {
    const { conditions } = this.#matches.compiledMatch(rule)
    for (const { attribute, isExcluding, values } of conditions) {
      if (isExcluding || values === undefined) continue
      let counts = this.#values.get(attribute)
      if (counts === undefined) this.#values.set(attribute, (counts = new Map()))
      for (const value of values) {
        const count = (counts.get(value) ?? 0) + sign
        if (count === 0) counts.delete(value)
        else counts.set(value, count)
      }
      if (counts.size === 0) this.#values.delete(attribute)
    }
  }
}

/** Returns the order of attributes by selectivity: rules are indexed again if it changes. */
function rankingOf(variety: AttributeVariety): string {
  const ranked = [...variety].toSorted(([a, one], [b, other]) => other - one || (a < b ? -1 : 1))
  return ranked
    .map(([name, size], i) => `${size === ranked[i - 1]?.[1] ? '=' : '>'}${name}`)
    .join(' ')
}

function weightOf({ limits, tiers, overrides, candidate }: Rule): number {
  let own = Math.max(limits.length, tierWeight(tiers))
  for (const override of overrides) own = Math.max(own, override.limits.length)
  if (candidate === undefined) return own
  return own + Math.max(candidate.limits.length, tierWeight(candidate.tiers))
}

function tierWeight(tiers: Tiers | undefined): number {
  let heaviest = 0
  for (const limits of tiers?.limits.values() ?? []) heaviest = Math.max(heaviest, limits.length)
  return heaviest
}

/** Whether one call could meet more limits than a decision may hold. */
import type { Rule, RuleSet, Tiers } from '../rules/rule.js'
import { RuleIndex } from './rule-index.js'
import { filingOf, shapeOf, varietyOf } from './rule-shape.js'

export const LIMITS_PER_CALL_MAX = 64

/**
 * The most limits one call could meet; Infinity where the patterns overlap beyond working out.
 * Rules that exclude each other only by conditions they are not filed under are counted together,
 * so the figure may be too high, never too low.
 */
export function mostLimitsPerCall({ rules, strictPaths }: RuleSet): number {
  const active = rules.filter(({ mode }) => mode !== 'off')
  const variety = varietyOf(rules)
  const weighed = active.map((rule, order) => {
    const { pattern, methods, conditions } = shapeOf(rule)
    const { filedUnder } = filingOf(conditions, variety)
    return { order, pattern, methods, conditions, filedUnder, weight: weightOf(rule) }
  })
  return new RuleIndex(weighed, strictPaths).heaviest(({ weight }) => weight) ?? Infinity
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

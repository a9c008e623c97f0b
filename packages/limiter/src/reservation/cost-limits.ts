/** Finds the smallest limit that each cost attribute of a call is taken from. */
import type { MatchedRule } from '@sluice/core'

/**
 * By cost attribute, the smallest limit among the enforced rules that a call matches. An estimate
 * above it could never pass, however little was used before.
 */
export function smallestLimits(matched: readonly MatchedRule[]): ReadonlyMap<string, number> {
  const smallest = new Map<string, number>()
  for (const { rule, limits, view } of matched) {
    if (rule.mode !== 'enforce' || typeof rule.cost === 'number') continue
    const { attribute } = rule.cost
    for (const whole of limits) {
      const ceiling = view.priority && whole.ceilings?.[view.priority.index]
      const { capacity } = (ceiling ?? whole).limit
      smallest.set(attribute, Math.min(capacity, smallest.get(attribute) ?? capacity))
    }
  }
  return smallest
}

/** Whether one call could meet more limits than a decision may hold. */
import type { RuleSet } from '../rules/rule.js'
import { sipKey } from '../sip-hash.js'
import { compileRules } from './compile.js'
import type { CompiledRule, CompiledTiers } from './compiled.js'

export const LIMITS_PER_CALL_MAX = 64

/**
 * The most limits one call could meet; Infinity where the patterns overlap beyond working out.
 * Rules that exclude each other only by conditions they are not filed under are counted together,
 * so the figure may be too high, never too low.
 */
export function mostLimitsPerCall(set: RuleSet): number {
  const snapshot = compileRules(set, { secret: sipKey(new Uint8Array(16)) })
  return snapshot.index.heaviest(weightOf) ?? Infinity
}

function weightOf(rule: CompiledRule): number {
  let own = Math.max(rule.limits.length, tierWeight(rule.tiers))
  for (const overrides of rule.overrides?.values() ?? []) {
    for (const { limits } of overrides) own = Math.max(own, limits.length)
  }
  const { candidate } = rule
  if (candidate === undefined) return own
  return own + Math.max(candidate.limits.length, tierWeight(candidate.tiers))
}

function tierWeight(tiers: CompiledTiers | undefined): number {
  let heaviest = 0
  for (const limits of tiers?.limits.values() ?? []) heaviest = Math.max(heaviest, limits.length)
  return heaviest
}

/**
 * Leaves limits of concurrency out of calls whose end nobody reports: they would hold their places
 * for ever. A rule that has no other limit does not match such a call.
 */
import type { CompiledLimit, CompiledRule } from './compiled.js'
import type { MatchedRule } from './match.js'

/** Whether a rule counts calls in flight, not counting overrides. */
export function countsInFlight({ limits, tiers, candidate }: CompiledRule): boolean {
  const lists = [limits, ...(tiers?.limits.values() ?? [])]
  const shadowed = candidate && [candidate.limits, ...(candidate.tiers?.limits.values() ?? [])]
  return [...lists, ...(shadowed ?? [])].some(hasPlaces)
}

/** Returns the matching rules without their limits of concurrency. */
export function withoutPlaces(matched: readonly MatchedRule[]): readonly MatchedRule[] {
  const isMet = ({ limits, candidate = NO_LIMITS }: MatchedRule) =>
    hasPlaces(limits) || hasPlaces(candidate)
  if (!matched.some(isMet)) return matched
  return matched.flatMap((match) => {
    if (!isMet(match)) return match
    const limits = match.limits.filter(isRate)
    const candidate = match.candidate?.filter(isRate)
    const isLeft = limits.length > 0 || (candidate?.length ?? 0) > 0
    // An empty list of limits would count the call as one that the rule allowed.
    if (!isLeft && match.limits.length > 0) return []
    return { ...match, limits, candidate: candidate?.length === 0 ? undefined : candidate }
  })
}

const NO_LIMITS: readonly CompiledLimit[] = []

function isRate({ isPlaces }: CompiledLimit): boolean {
  return !isPlaces
}

function hasPlaces(limits: readonly CompiledLimit[]): boolean {
  return limits.some(({ isPlaces }) => isPlaces)
}

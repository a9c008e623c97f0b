/**
 * Leaves limits of concurrency out of calls whose end nobody reports: they would hold their places
 * for ever. A rule that has no other limit does not match such a call.
 */
import type { CompiledLimit, CompiledRule, Snapshot } from './compiled.js'
import type { MatchedRule } from './match.js'

/** Whether a rule counts calls in flight, not counting overrides. */
export function countsInFlight({ limits, tiers, candidate }: CompiledRule): boolean {
  const lists = [
    ...listsOf({ limits, tiers }),
    ...(candidate === undefined ? [] : listsOf(candidate)),
  ]
  return lists.some(hasPlaces)
}

/** Returns the places of each rule that is not off and counts calls in flight, by its id. */
export function placesByRule({ rules }: Snapshot): ReadonlyMap<string, number> {
  const places = rules.flatMap((rule): readonly (readonly [string, number])[] => {
    const first = rule.mode === 'off' ? undefined : listsOf(rule).flat().find(isPlaces)
    return first === undefined ? [] : [[rule.id, first.limit.max]]
  })
  return new Map(places)
}

function listsOf({
  limits,
  tiers,
}: Pick<CompiledRule, 'limits' | 'tiers'>): readonly (readonly CompiledLimit[])[] {
  return [limits, ...(tiers?.limits.values() ?? [])]
}

/** Returns the matching rules without their limits of concurrency. */
export function withoutPlaces(matched: readonly MatchedRule[]): readonly MatchedRule[] {
  const isMet = ({ limits, candidate = NO_LIMITS }: MatchedRule) =>
    hasPlaces(limits) || hasPlaces(candidate)
  if (!matched.some(isMet)) return matched
  return matched.flatMap((match) => {
    if (!isMet(match)) return match
    const limits = match.limits.filter((limit) => !limit.isPlaces)
    const candidate = match.candidate?.filter((limit) => !limit.isPlaces)
    const isLeft = limits.length > 0 || (candidate?.length ?? 0) > 0
    // An empty list of limits would count the call as one that the rule allowed.
    if (!isLeft && match.limits.length > 0) return []
    return { ...match, limits, candidate: candidate?.length === 0 ? undefined : candidate }
  })
}

const NO_LIMITS: readonly CompiledLimit[] = []

function isPlaces(limit: CompiledLimit): boolean {
  return limit.isPlaces
}

function hasPlaces(limits: readonly CompiledLimit[]): boolean {
  return limits.some(isPlaces)
}

/** Refuses calls of which every alternative is known to refuse, without a trip to the store. */
import { isChargedOnRefusal, type Outcome, type Plan, type PlannedTake } from '@sluice/core'
import { type DenyCache, KnownRefusal } from '../deny-cache.js'

/**
 * The refusal of a plan with alternatives, all of which are known to refuse. Undefined if the store
 * must decide: one may have room, or the first group is charged whatever they say.
 */
export function knownAlternatives(
  cache: DenyCache,
  plan: Plan,
  nowMs: number,
): KnownRefusal | undefined {
  const { matched, groups, alternatives = 0 } = plan
  if (alternatives === 0 || groups[0]?.some(isChargedOnRefusal) === true) return undefined
  const takes: PlannedTake[] = []
  const outcomes: Outcome[] = []
  let staleMs = 0
  for (let g = groups.length - alternatives; g < groups.length; g++) {
    const refusal = cache.refuse(plan, nowMs, g)
    if (refusal === undefined) return undefined
    takes.push(...(refusal.groups[0] ?? []))
    outcomes.push(...(refusal.outcomes[0] ?? []))
    staleMs = Math.max(staleMs, refusal.staleMs)
  }
  return new KnownRefusal(matched, takes, outcomes, staleMs)
}

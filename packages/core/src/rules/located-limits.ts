/**
 * Lists every limit of a rule with its position in the source: its own and those of tiers,
 * overrides and candidate.
 */
import type { LimitSpec } from '../limit.js'
import { fieldOf, itemsOf, type Located, locateEntry } from './reader.js'
import type { Rule, Tiers } from './rule.js'
import type { MapNode } from './tree.js'

export interface LocatedLimit {
  readonly located: Located
  readonly limit: LimitSpec
  /** Whether it counts in shadow, whatever the mode of its rule. */
  readonly isCandidate: boolean
  /** Whether it is a limit of one caller. */
  readonly isOverride: boolean
}

/** For a rule without problems: only then does each position have a limit. */
export function locatedLimitsOf(rule: Rule, map: Located<MapNode>): readonly LocatedLimit[] {
  const { candidate } = rule
  const own = [...rule.limits, ...limitsOfTiers(rule.tiers)]
  const inForce = [...own, ...rule.overrides.flatMap(({ limits }) => limits)]
  const candidateLimits = [...(candidate?.limits ?? []), ...limitsOfTiers(candidate?.tiers)]
  const locatedItems = locateLimits(map)
  return [...inForce, ...candidateLimits].flatMap((limit, index) => {
    const located = locatedItems[index]
    const isCandidate = index >= inForce.length
    const isOverride = index >= own.length && !isCandidate
    return located === undefined ? [] : [{ located, limit, isCandidate, isOverride }]
  })
}

/**
 * Returns the positions of limits in the source, valid or not, in the order of `locatedLimitsOf`.
 */
export function locateLimits(map: Located<MapNode>): readonly Located[] {
  const candidate = listOf(fieldOf(map, 'candidate')).flatMap(onlyMap)
  return [
    ...locateListedLimits(map),
    ...locateTierLimits(map),
    ...listOf(fieldOf(map, 'overrides')).flatMap(onlyItems).flatMap(locateListedLimits),
    ...candidate.flatMap(locateListedLimits),
    ...candidate.flatMap(locateTierLimits),
  ]
}

/** Returns the positions of the limits that a rule, an override or a candidate lists itself. */
export function locateListedLimits(located: Located): readonly Located[] {
  return onlyMap(located)
    .flatMap((map) => listOf(fieldOf(map, 'limits')))
    .flatMap(onlyItems)
}

function locateTierLimits(map: Located<MapNode>): readonly Located[] {
  return listOf(fieldOf(map, 'tiers'))
    .flatMap(onlyMap)
    .flatMap(onlyFields)
    .flatMap(onlyMap)
    .flatMap(onlyFields)
    .flatMap(onlyItems)
}

function limitsOfTiers(tiers: Tiers | undefined): readonly LimitSpec[] {
  return tiers === undefined ? [] : [...tiers.limits.values()].flat()
}

function listOf(located: Located | undefined): readonly Located[] {
  return located === undefined ? [] : [located]
}

function onlyMap({ node, field, report }: Located): readonly Located<MapNode>[] {
  return node.kind === 'map' ? [{ node, field, report }] : []
}

function onlyFields(map: Located<MapNode>): readonly Located[] {
  return [...map.node.entries.values()].map((entry) => locateEntry(map, entry))
}

function onlyItems({ node, field, report }: Located): readonly Located[] {
  return node.kind === 'list' ? itemsOf({ node, field, report }) : []
}

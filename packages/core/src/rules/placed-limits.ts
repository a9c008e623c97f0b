/**
 * Every limit of a rule with the place where it was written: its own, of tiers, overrides,
 * candidate.
 */
import type { LimitSpec } from '../limit.js'
import { fieldOf, itemsOf, type Spot, spotOf } from './reader.js'
import type { Rule, Tiers } from './rule.js'
import type { MapNode } from './tree.js'

export interface PlacedLimit {
  readonly spot: Spot
  readonly limit: LimitSpec
  /** Counts in shadow, whatever the mode of its rule. */
  readonly isCandidate: boolean
  /** Of one caller. */
  readonly isOverride: boolean
}

/** For a rule without problems: only then is there a limit for each place. */
export function placeLimits(rule: Rule, map: Spot<MapNode>): readonly PlacedLimit[] {
  const { candidate } = rule
  const own = [...rule.limits, ...limitsOfTiers(rule.tiers)]
  const inForce = [...own, ...rule.overrides.flatMap(({ limits }) => limits)]
  const tried = [...(candidate?.limits ?? []), ...limitsOfTiers(candidate?.tiers)]
  const spots = findLimitSpots(map)
  return [...inForce, ...tried].flatMap((limit, index) => {
    const spot = spots[index]
    const isCandidate = index >= inForce.length
    const isOverride = index >= own.length && !isCandidate
    return spot === undefined ? [] : [{ spot, limit, isCandidate, isOverride }]
  })
}

/** Where limits are written, read or not, in the order in which `placeLimits` has them. */
export function findLimitSpots(map: Spot<MapNode>): readonly Spot[] {
  const candidate = itself(fieldOf(map, 'candidate')).flatMap(onlyMap)
  return [
    ...findListed(map),
    ...findTierSpots(map),
    ...itself(fieldOf(map, 'overrides')).flatMap(onlyItems).flatMap(findListed),
    ...candidate.flatMap(findListed),
    ...candidate.flatMap(findTierSpots),
  ]
}

/** The limits that a rule, an override or a candidate has as its own. */
export function findListed(spot: Spot): readonly Spot[] {
  return onlyMap(spot)
    .flatMap((map) => itself(fieldOf(map, 'limits')))
    .flatMap(onlyItems)
}

function findTierSpots(map: Spot<MapNode>): readonly Spot[] {
  return itself(fieldOf(map, 'tiers'))
    .flatMap(onlyMap)
    .flatMap(onlyFields)
    .flatMap(onlyMap)
    .flatMap(onlyFields)
    .flatMap(onlyItems)
}

function limitsOfTiers(tiers: Tiers | undefined): readonly LimitSpec[] {
  return tiers === undefined ? [] : [...tiers.limits.values()].flat()
}

function itself(spot: Spot | undefined): readonly Spot[] {
  return spot === undefined ? [] : [spot]
}

function onlyMap({ node, field, report }: Spot): readonly Spot<MapNode>[] {
  return node.kind === 'map' ? [{ node, field, report }] : []
}

function onlyFields(map: Spot<MapNode>): readonly Spot[] {
  return [...map.node.entries.values()].map((entry) => spotOf(map, entry))
}

function onlyItems({ node, field, report }: Spot): readonly Spot[] {
  return node.kind === 'list' ? itemsOf({ node, field, report }) : []
}

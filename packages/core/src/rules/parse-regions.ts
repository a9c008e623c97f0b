/** Parses how regions share the limits of a rule, and the shares of those that are split. */
import { moduleOf } from '../algorithms/index.js'
import type { LimitSpec } from '../limit.js'
import {
  isInStore,
  leastBurst,
  MERGE_DELAY_MS,
  regionUnits,
  unmergeableReason,
} from '../matching/region-limits.js'
import { SHARE_WHOLE } from '../matching/ceilings.js'
import { formatDuration } from '../text/duration.js'
import { type LocatedLimit, locatedLimitsOf } from './located-limits.js'
import type { LocatedRule } from './parse-rule.js'
import { readShare } from './parse-share.js'
import {
  reportAt,
  fieldName,
  fieldOf,
  type Located,
  locateEntry,
  readAnyMap,
  readChoice,
  readOptional,
} from './reader.js'
import type { RegionMode, Rule, RuleSet, Shares } from './rule.js'
import type { MapNode } from './tree.js'
import { quote } from './tree.js'

const REGION_MODES: readonly RegionMode[] = ['merged', 'split', 'apart']
/** Every node keeps a connection and a list of unsent counters for each region. */
export const REGIONS_MAX = 16
export const REGION_NAME = /^[a-z0-9-]{1,32}$/
export const ACCEPTED_REGION_NAME = '1 to 32 of a-z, 0-9 and "-", such as eu-west'
const ACCEPTED_SHARES = 'a map of all regions to shares, such as { eu-west: 60%, us-east: 40% }'
const ACCEPTED_SHARE =
  'a percentage from 0% to 100%, in steps of 0.01%, such as 50%, or as a number 0.5'
const ACCEPTED_TOLERANCE =
  'a percentage above 0%, up to 100%, in steps of 0.01%, such as 10%, or as a number 0.1'
/** What regions may admit beyond a merged limit if its rule does not say: a tenth. */
export const TOLERANCE = 1000

export function readRegions(map: Located<MapNode>): Pick<Rule, 'regions' | 'tolerance'> {
  const read = readOptional(map, 'regions', (field) => readChoice(field, REGION_MODES))
  const tolerance = readOptional(map, 'tolerance', readTolerance)
  const field = fieldOf(map, 'tolerance')
  if (field !== undefined && read !== undefined && read !== 'merged') {
    reportAt(field, 'regions-conflict', {
      found: 'tolerance',
      why: read,
      accepted: 'regions: merged, or no tolerance',
    })
  }
  return { regions: read ?? 'merged', tolerance }
}

function readTolerance(located: Located): number | undefined {
  return readShare(located, { least: 1, most: SHARE_WHOLE, accepted: ACCEPTED_TOLERANCE })
}

/** Reads the shares of a set. `regions` are those that are configured, if that is known. */
export function readShares(
  located: Located,
  regions: readonly string[] | undefined,
): Shares | undefined {
  const map = readAnyMap(located, ACCEPTED_SHARES)
  if (map === undefined) return undefined
  const entries = [...map.node.entries.values()]
  if (entries.length === 0) return reportAt(located, 'empty', { accepted: ACCEPTED_SHARES })
  if (entries.length > REGIONS_MAX) {
    const found = `${entries.length} regions`
    return reportAt(located, 'too-many', { found, accepted: `up to ${REGIONS_MAX} regions` })
  }
  const shares = new Map<string, number>()
  for (const entry of entries) {
    const field = locateEntry(map, entry)
    if (!REGION_NAME.test(entry.key)) {
      const found = `the region ${quote(entry.key)}`
      reportAt(field, 'bad-shares', { found, accepted: ACCEPTED_REGION_NAME })
    }
    const share = readShare(field, { least: 0, most: SHARE_WHOLE, accepted: ACCEPTED_SHARE })
    if (share === undefined) return undefined
    shares.set(entry.key, share)
  }
  const sum = [...shares.values()].reduce((all, share) => all + share, 0)
  if (sum !== SHARE_WHOLE) {
    const found = `shares of ${sum / 100}% in all`
    reportAt(located, 'bad-shares', { found, accepted: 'shares of 100% in all' })
  }
  for (const name of regions ?? []) {
    if (shares.has(name)) continue
    reportAt(located, 'bad-shares', {
      field: fieldName(located, name),
      found: 'no share',
      accepted: `a share for each region that is configured: ${regions?.join(', ')}`,
    })
  }
  return shares
}

/**
 * Refuses what a rule says of regions and its limits cannot do. For a rule without problems; what
 * it does not say is no error, because one region needs no such field.
 */
export function checkRegions({ rule, map }: LocatedRule): void {
  const field = fieldOf(map, 'regions')
  if (field === undefined || rule.regions === 'apart') return
  if (rule.regions === 'merged' && !isInStore(rule)) {
    reportAt(field, 'regions-conflict', {
      found: `coordination: ${rule.coordination}`,
      why: 'merged',
      accepted: 'coordination: exact, leased or local, whose counts are in the store; or split',
    })
    return
  }
  for (const { located, limit } of locatedLimitsOf(rule, map)) {
    checkRegionsOf(limit, rule.regions, located)
  }
}

function checkRegionsOf(limit: LimitSpec, mode: RegionMode, located: Located): void {
  if (mode === 'split') {
    if (limit.start !== 'call') return
    reportAt(located, 'regions-conflict', {
      found: 'start: call',
      why: mode,
      accepted: 'start: clock here, or regions: apart',
    })
    return
  }
  const reason = unmergeableReason(limit)
  if (reason === undefined) return
  if (reason === 'burst') {
    const least = leastBurst(limit)
    reportAt(located, 'regions-conflict', {
      found: `a burst of ${moduleOf(limit).capacityOf(limit)}`,
      why: mode,
      accepted: `split, or a burst of at least ${least}, the rate of ${MERGE_DELAY_MS} ms`,
    })
    return
  }
  reportAt(located, 'regions-conflict', {
    found: reason,
    why: mode,
    accepted: reason === 'start: call' ? 'start: clock here, or regions: apart' : 'split or apart',
  })
}

/** Returns the names of all regions, and what each has of a limit that is split. */
export function regionsOf(
  { shares }: Pick<RuleSet, 'shares'>,
  configured: readonly string[] | undefined,
): Shares {
  return shares ?? new Map((configured ?? []).toSorted().map((name) => [name, 1]))
}

/** Warns of limits of which all regions together admit more, or some region less, than intended. */
export function warnOfRegions({ rule, map }: LocatedRule, regions: Shares): void {
  if (rule.mode === 'off') return
  const isExplicit = map.node.entries.has('regions')
  if (rule.regions === 'apart' || (!isExplicit && regions.size < 2)) return
  for (const each of locatedLimitsOf(rule, map)) {
    if (each.limit.max === 0) continue
    if (rule.regions === 'split') warnOfSmallShare(each, rule, regions)
    else if (isInStore(rule) && unmergeableReason(each.limit) === undefined) {
      warnOfWideMerge(each, rule)
    } else if (rule.coordination !== 'node') warnOfApart(each, rule, regions)
  }
}

function warnOfApart({ located, limit }: LocatedLimit, rule: Rule, regions: Shares): void {
  const reason = isInStore(rule)
    ? unmergeableReason(limit)
    : `a limit with coordination: ${rule.coordination}`
  const found = reason === 'burst' ? `a burst below ${leastBurst(limit)}` : (reason ?? '')
  reportAt(located, 'regions-apart', {
    found,
    why: `${regions.size} x ${limit.max} in all`,
    accepted:
      reason === 'start: call' ? 'regions: apart, to say so' : 'regions: split, or apart to say so',
  })
}

function warnOfWideMerge({ located, limit }: LocatedLimit, { tolerance = TOLERANCE }: Rule): void {
  const { windowMs } = limit
  if (moduleOf(limit).family !== 'window') return
  const late = 2 * MERGE_DELAY_MS * SHARE_WHOLE
  if (late <= tolerance * windowMs) return
  const window = formatDuration(windowMs)
  reportAt(located, 'wide-merge', {
    found: `a window of ${window}`,
    why: `${tolerance / 100}%`,
    accepted: `regions: split, or a window of at least ${formatDuration(Math.ceil(late / tolerance))}`,
  })
}

/**
 * Returns how many times a limit may be offered while its rule's tolerance holds; undefined if it
 * is no window that regions merge.
 */
export function toleratedOffer(limit: LimitSpec, rule: Rule): number | undefined {
  const { regions, tolerance = TOLERANCE } = rule
  const isMerged = regions === 'merged' && isInStore(rule)
  const isWindow = isMerged && limit.max > 0 && moduleOf(limit).family === 'window'
  if (!isWindow || unmergeableReason(limit) !== undefined) return undefined
  return Math.floor((tolerance * limit.windowMs) / (SHARE_WHOLE * MERGE_DELAY_MS))
}

/** A region with a share of 0% has none on purpose. */
function warnOfSmallShare({ located, limit }: LocatedLimit, rule: Rule, regions: Shares): void {
  const weights = [...regions].toSorted(([a], [b]) => (a < b ? -1 : 1))
  const shares = weights.map(([, share]) => share)
  const module = moduleOf(limit)
  const least = Math.max(1, typeof rule.cost === 'number' ? rule.cost : 1)
  for (const [index, [name, share]] of weights.entries()) {
    const capacity = regionUnits(module.capacityOf(limit), shares, index)
    const most = module.unitsBeyondCapacity + Math.max(1, capacity)
    const isEmpty = regionUnits(limit.max, shares, index) === 0
    if (share === 0 || (!isEmpty && most >= least)) continue
    reportAt(located, 'small-share', {
      found: name,
      why: `a limit of ${limit.max}: it would refuse every call there`,
      accepted: 'a larger share or limit, or regions: merged or apart',
    })
  }
}

/**
 * Limits of a fleet in several regions. With `regions: split` a region has its share of max, burst
 * and queue, which sum to the limit exactly; with `merged` it has the whole limit, which may also
 * hold what the others spent before it knew.
 */
import { algorithmOf, moduleOf } from '../algorithms/index.js'
import { mostDebt } from '../algorithms/precision.js'
import { defineLimit, findLimitProblem, type Limit, limitNameOf, type LimitSpec } from '../limit.js'
import { ceilDiv, floorDiv } from '../numbers.js'
import type { RegionMode, Rule, Shares } from '../rules/rule.js'

/** The region of a node among all regions. */
export interface RegionPlace {
  readonly own: string
  /** All regions, in any order; their nodes must have the same ones. */
  readonly names: readonly string[]
}

/** The same, with the part of a split limit that each region has. */
export interface CompiledRegion {
  /** The index of the own region among `weights`. */
  readonly index: number
  /** The parts of each region, in order of their names; equal parts if the set has no shares. */
  readonly weights: readonly number[]
  /** The number of regions. */
  readonly count: number
}

/**
 * How late regions learn of each other, in milliseconds, as rules are checked for it: half of
 * `syncEvery` and the way between two continents.
 */
export const MERGE_DELAY_MS = 100
/** A bucket owes at most what it regains in this time in all regions, so a cut is soon paid for. */
const DEBT_MS = 1000

/** Undefined if there is only one region, and with it nothing to share. */
export function compileRegion(
  place: RegionPlace | undefined,
  shares: Shares | undefined,
): CompiledRegion | undefined {
  if (place === undefined || place.names.length < 2) return undefined
  const names = [...(shares?.keys() ?? place.names)].toSorted()
  const weights = names.map((name) => shares?.get(name) ?? 1)
  return { index: names.indexOf(place.own), weights, count: place.names.length }
}

export function isSameRegion(
  a: CompiledRegion | undefined,
  b: CompiledRegion | undefined,
): boolean {
  if (a === undefined || b === undefined) return a === b
  return a.index === b.index && a.count === b.count && a.weights.join() === b.weights.join()
}

/** Returns the units of the region at `index`; those of all regions sum to `units`. */
export function regionUnits(units: number, weights: readonly number[], index: number): number {
  const sumOf = (count: number) => weights.slice(0, count).reduce((sum, each) => sum + each, 0)
  const all = sumOf(weights.length)
  const weight = weights[index]
  if (weight === undefined || all === 0) return 0
  const whole = floorDiv(units, all)
  // In two steps, because units * weight may exceed 2^53.
  const rest = units - whole * all
  const upTo = (count: number) => floorDiv(rest * sumOf(count), all)
  return whole * weight + upTo(index + 1) - upTo(index)
}

/** Returns the part of a limit that the own region has. */
export function regionSpec(spec: LimitSpec, { weights, index }: CompiledRegion): LimitSpec {
  const part = (units: number) => regionUnits(units, weights, index)
  // A bucket or queue without capacity could never admit what it regains.
  const size = (units: number) => Math.max(1, part(units))
  const max = part(spec.max)
  if (max === 0) return refusingSpec(spec)
  const { burst, queue, debt } = spec
  const own: LimitSpec = {
    ...spec,
    max,
    ...(burst === undefined ? {} : { burst: size(burst) }),
    ...(queue === undefined ? {} : { queue: size(queue) }),
    ...(debt === undefined ? {} : { debt: part(debt) }),
  }
  if (findLimitProblem(own) === undefined) return own
  // A part may be too small to count exactly where the whole limit is not; a fixed window always
  // can.
  return asFixedWindow(spec, max)
}

/** The limit of a region that has nothing of it. */
function refusingSpec(spec: LimitSpec): LimitSpec {
  const { algorithm, windowMs, start, window, zone, block, onRefusal } = spec
  const name = limitNameOf(spec)
  const refusal = onRefusal === 'overdraw' ? 'none' : onRefusal
  return { algorithm, max: 0, windowMs, start, window, zone, block, onRefusal: refusal, name }
}

function asFixedWindow(spec: LimitSpec, max: number): LimitSpec {
  const { windowMs, block, onRefusal } = spec
  return { algorithm: 'fixed-window', max, windowMs, block, onRefusal, name: limitNameOf(spec) }
}

/** Why counts of a limit cannot be merged; undefined if they can. */
export function unmergeableReason(spec: LimitSpec): string | undefined {
  const module = moduleOf(spec)
  if (!module.mergeable) return spec.start === 'call' ? 'start: call' : spec.algorithm
  if (module.family !== 'bucket' || spec.max === 0) return undefined
  return module.capacityOf(spec) < leastBurst(spec) ? 'burst' : undefined
}

/**
 * Returns the least burst of a bucket that can be merged: what it regains while others do not know
 * yet. A smaller one would lose budget in every round, because it cannot hold what was spent.
 */
export function leastBurst({ max, windowMs }: LimitSpec): number {
  return ceilDiv(max * MERGE_DELAY_MS, windowMs)
}

/** Whether the counters of a limit are in the store, where other regions can charge them. */
export function isInStore({ coordination }: Pick<Rule, 'coordination'>): boolean {
  return coordination !== 'split' && coordination !== 'node'
}

/** How regions share one limit of a rule: `apart` if it cannot be merged. */
export function regionModeOf(spec: LimitSpec, rule: Rule): RegionMode {
  if (rule.regions !== 'merged') return rule.regions
  return isInStore(rule) && unmergeableReason(spec) === undefined ? 'merged' : 'apart'
}

/**
 * Returns the limit as all regions merge it. A bucket may owe what all of them admit in a second:
 * without debt they would admit its rate once for each region forever, and with more, a healed
 * partition would silence a caller for long. The count of a window needs no debt.
 */
export function mergedLimit(limit: Limit, regions: number): Limit {
  const merged = { ...limit, isMerged: true }
  const algorithm = algorithmOf(limit)
  if (algorithm.family !== 'bucket' || limit.max === 0) return merged
  const { max, capacity, windowMs, onRefusal } = limit
  const spec = { ...algorithm.resize(limit, max, capacity), onRefusal }
  const regained = ceilDiv(regions * max * DEBT_MS, windowMs)
  const wanted = Math.max(capacity, limit.debt, regions, regained)
  const debt = Math.min(wanted, mostDebt(spec, algorithm))
  const owing = { ...spec, debt }
  if (debt <= limit.debt || findLimitProblem(owing) !== undefined) return merged
  const { p, q, tickUs, borrowable } = defineLimit(owing)
  return { ...merged, p, q, tickUs, borrowable }
}

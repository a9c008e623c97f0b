/** What all nodes saw of their callers, as one list. */
import { CALLERS_TOLD_MAX, type NodeSight, type SeenCaller } from '../node-sight.js'
import { TimeSlices } from '../../time-slices.js'
import { countHours, HIGHER_TIER_HOURS } from './hours.js'
import type { TopCallerView, TopOrder } from './top-view.js'
import { SILENT_MS } from './zero.js'

export type CallersSight = Pick<NodeSight, 'callers' | 'callersSinceMs'>

interface TopAsked {
  /** Of this rule alone. */
  readonly rule?: string | undefined
  readonly limit: number
}

type Figure = 'refusals' | 'use'

/** What is known of one caller of one rule. */
interface Merged {
  /** As the node told it that saw it last, of those that can name it. */
  named: SeenCaller
  lastSeenMs: number
  hours: number
  readonly refusals: Sum
  readonly use: Sum
  /** By those that saw it in the last minute; undefined: nobody did. */
  zeroSinceMs: number | undefined
}

/** Of the nodes that told of a caller. */
interface Sum {
  /** Not too low, and at most `error` too high. */
  count: number
  error: number
  /** What these nodes would add if they had not told of it. */
  floors: number
}

/** Later than anything. */
const NOT_AT_ZERO = Infinity

/**
 * The first callers of all nodes. By refusals and use those come first that have most for certain;
 * `error` is what their figure may be too high. Figures they are not ordered by are certain ones.
 */
export async function mergeCallers(
  sights: readonly CallersSight[],
  order: TopOrder,
  { rule, limit }: TopAsked,
  nowMs: number,
): Promise<readonly TopCallerView[]> {
  const slices = new TimeSlices()
  const merged = new Map<string, Merged>()
  const floors = { refusals: new Map<string, number>(), use: new Map<string, number>() }
  for (const { callers } of sights) {
    const told = rule === undefined ? callers : callers.filter((caller) => caller.rule === rule)
    const refusalFloors = floorsOf(told, 'refusals')
    const useFloors = floorsOf(told, 'use')
    addAll(floors.refusals, refusalFloors)
    addAll(floors.use, useFloors)
    for (const caller of told) {
      const known = merge(merged, caller, nowMs)
      const { rule: id, refusals, refusalsError, use, useError } = caller
      addTo(known.refusals, refusals, refusalsError, refusalFloors.get(id) ?? 0)
      addTo(known.use, use, useError, useFloors.get(id) ?? 0)
    }
    if (slices.isOver()) await slices.pause()
  }
  const first = new FirstCallers(limit)
  for (const caller of merged.values()) first.add(caller, weightOf(caller, order, nowMs))
  return first.all().map((caller) => viewOf(caller, order, floors))
}

/** The heaviest of many, in order: sorting all of them would hold up decisions. */
class FirstCallers {
  readonly #limit: number
  readonly #first: { readonly caller: Merged; readonly weight: number }[] = []

  constructor(limit: number) {
    this.#limit = limit
  }

  add(caller: Merged, weight: number): void {
    if (weight <= 0) return
    const first = this.#first
    let from = 0
    let to = first.length
    while (from < to) {
      const middle = (from + to) >> 1
      const other = first[middle]
      if (other !== undefined && isBefore(caller, weight, other.caller, other.weight)) to = middle
      else from = middle + 1
    }
    if (from >= this.#limit) return
    first.splice(from, 0, { caller, weight })
    if (first.length > this.#limit) first.pop()
  }

  all(): readonly Merged[] {
    return this.#first.map(({ caller }) => caller)
  }
}

/** Of those that weigh the same, whoever was seen last. */
function isBefore(one: Merged, weight: number, other: Merged, otherWeight: number): boolean {
  return weight === otherWeight ? one.lastSeenMs > other.lastSeenMs : weight > otherWeight
}

/** Since when the figures of all are counted. */
export function callersSinceMs(sights: readonly CallersSight[], nowMs: number): number {
  return sights.reduce((sinceMs, sight) => Math.min(sinceMs, sight.callersSinceMs), nowMs)
}

/**
 * For each rule the most that a caller can have whom the node does not tell of. It tells of the
 * first 20 by this figure, so nobody untold has more than the twentieth; and where it tells of
 * fewer, it knows no others.
 */
function floorsOf(callers: readonly SeenCaller[], figure: Figure): ReadonlyMap<string, number> {
  const figures = new Map<string, number[]>()
  for (const caller of callers) {
    const known = figures.get(caller.rule)
    if (known === undefined) figures.set(caller.rule, [caller[figure]])
    else known.push(caller[figure])
  }
  const floors = new Map<string, number>()
  for (const [rule, told] of figures) {
    const last = told.toSorted((a, b) => b - a)[CALLERS_TOLD_MAX - 1]
    if (last !== undefined && last > 0) floors.set(rule, last)
  }
  return floors
}

function addAll(sums: Map<string, number>, more: ReadonlyMap<string, number>): void {
  for (const [rule, floor] of more) sums.set(rule, (sums.get(rule) ?? 0) + floor)
}

function addTo(sum: Sum, count: number, error: number, floor: number): void {
  sum.count += count
  sum.error += error
  sum.floors += floor
}

function merge(merged: Map<string, Merged>, caller: SeenCaller, nowMs: number): Merged {
  const key = `${caller.rule}\n${caller.hash}`
  const known = merged.get(key) ?? {
    named: caller,
    lastSeenMs: 0,
    hours: 0,
    refusals: { count: 0, error: 0, floors: 0 },
    use: { count: 0, error: 0, floors: 0 },
    zeroSinceMs: undefined,
  }
  merged.set(key, known)
  const isNewer = caller.lastSeenMs > known.named.lastSeenMs
  if (isNamed(caller) && (isNewer || !isNamed(known.named))) known.named = caller
  known.lastSeenMs = Math.max(known.lastSeenMs, caller.lastSeenMs)
  known.hours |= caller.hours
  // At zero for all is who is so on every node that it calls, and since the last of them.
  if (nowMs - caller.lastSeenMs <= SILENT_MS) {
    known.zeroSinceMs = Math.max(known.zeroSinceMs ?? 0, caller.zeroSinceMs ?? NOT_AT_ZERO)
  }
  return known
}

function isNamed({ caller, plan }: SeenCaller): boolean {
  return plan !== null || Object.keys(caller).length > 0
}

/** What a caller is ordered by; 0: it has no place in this order. */
function weightOf(caller: Merged, order: TopOrder, nowMs: number): number {
  if (order === 'hours') {
    const hours = countHours(caller.hours)
    return hours >= HIGHER_TIER_HOURS ? hours : 0
  }
  if (order !== 'zero') return certain(caller[order])
  // Clocks of nodes may be a moment ahead of this one.
  return isAtZero(caller.zeroSinceMs) ? Math.max(1, nowMs - caller.zeroSinceMs) : 0
}

function viewOf(
  caller: Merged,
  order: TopOrder,
  floors: Readonly<Record<Figure, ReadonlyMap<string, number>>>,
): TopCallerView {
  const { named, lastSeenMs, hours, refusals, use, zeroSinceMs } = caller
  const figures = { refusals: certain(refusals), use: certain(use) }
  let error = 0
  if (order === 'refusals' || order === 'use') {
    // Each node that did not tell of it may have seen as much as it told of others.
    const untold = (floors[order].get(named.rule) ?? 0) - caller[order].floors
    error = caller[order].error + untold
    figures[order] += error
  }
  return {
    rule: named.rule,
    caller: named.caller,
    hash: named.hash,
    // Of everybody together it would be that of whoever called last.
    plan: Object.keys(named.caller).length === 0 ? null : named.plan,
    ...figures,
    error,
    zeroSince: isAtZero(zeroSinceMs) ? new Date(zeroSinceMs).toISOString() : null,
    lastSeen: new Date(lastSeenMs).toISOString(),
    hoursAtLimit: countHours(hours),
  }
}

function certain({ count, error }: Sum): number {
  return count - error
}

function isAtZero(sinceMs: number | undefined): sinceMs is number {
  return sinceMs !== undefined && sinceMs !== NOT_AT_ZERO
}

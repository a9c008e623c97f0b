/** Merges the callers of all nodes into one list. */
import {
  SNAPSHOT_CALLERS_MAX,
  type CallerIdentity,
  type CallerSnapshot,
  type NodeSnapshot,
  type ShadowCallerSnapshot,
} from '../node-snapshot.js'
import { CooperativeYield } from '../../../lib/cooperative-yield.js'
import { countHours, HIGHER_TIER_HOURS } from './hours-at-limit.js'
import type { TopCallerView, TopOrder } from '../stats-views.js'
import { SILENT_MS } from './exhausted-callers.js'

export type CallersSnapshot = Pick<NodeSnapshot, 'callers' | 'shadowCallers' | 'callersSinceMs'>

interface TopQuery {
  /** Only callers of this rule. */
  readonly rule?: string | undefined
  readonly limit: number
}

const FIGURES = ['refusals', 'use', 'shadowRefusals', 'candidateRefusals'] as const
type Figure = (typeof FIGURES)[number]
type Floors = Readonly<Record<Figure, ReadonlyMap<string, number>>>

/** One caller of one rule, merged over nodes. */
interface MergedCaller extends Readonly<Record<Figure, Sum>> {
  /** From the node that saw it last, among those that know its name. */
  identity: CallerIdentity
  isEverybody: boolean
  lastSeenMs: number
  hours: number
  /** According to nodes that saw it in the last minute; undefined if none did. */
  zeroSinceMs: number | undefined
  /** A refused call, and one that would have been refused. */
  refusedCall: LatestCall | undefined
  shadowCall: LatestCall | undefined
}

interface LatestCall {
  readonly text: string
  readonly lastSeenMs: number
}

/** The sum over the nodes that published a caller. */
interface Sum {
  /** Never too low, and at most `error` too high. */
  count: number
  error: number
  /** What these nodes would contribute had they not published it. */
  floors: number
}

const NOT_EXHAUSTED = Infinity

/**
 * The top callers of all nodes. By refusals and by use, callers are sorted by the guaranteed part
 * of their figure; `error` is how much the figure may be too high. Figures of other orders are
 * guaranteed minimums. By refusals, callers with only would-be refusals come last.
 */
export async function mergeCallers(
  snapshots: readonly CallersSnapshot[],
  order: TopOrder,
  { rule, limit }: TopQuery,
  nowMs: number,
): Promise<readonly TopCallerView[]> {
  const slices = new CooperativeYield()
  const merged = new Map<string, MergedCaller>()
  const floors = {
    refusals: new Map<string, number>(),
    use: new Map<string, number>(),
    shadowRefusals: new Map<string, number>(),
    candidateRefusals: new Map<string, number>(),
  }
  const isWanted = (caller: CallerIdentity) => rule === undefined || caller.rule === rule
  for (const snapshot of snapshots) {
    const callers = snapshot.callers.filter(isWanted)
    const shadowCallers = (snapshot.shadowCallers ?? []).filter(isWanted)
    const own: Floors = {
      refusals: floorsOf(callers, ({ refusals }) => refusals),
      use: floorsOf(callers, ({ use }) => use),
      shadowRefusals: floorsOf(shadowCallers, ({ shadowRefusals }) => shadowRefusals),
      candidateRefusals: floorsOf(shadowCallers, ({ candidateRefusals }) => candidateRefusals),
    }
    for (const figure of FIGURES) addAll(floors[figure], own[figure])
    for (const caller of callers) addCaller(mergedOf(merged, caller), caller, own, nowMs)
    for (const caller of shadowCallers) addShadowCaller(mergedOf(merged, caller), caller, own)
    if (slices.isDue()) await slices.pause()
  }
  const first = new FirstCallers(limit)
  for (const caller of merged.values()) first.add({ caller, ...weightOf(caller, order, nowMs) })
  return first.all().map((caller) => viewOf(caller, order, floors))
}

/** The sort key of a caller; if both are 0, it is not listed. */
interface Weight {
  readonly weight: number
  /** Decides between equal weights. */
  readonly tiebreak: number
}

interface WeightedCaller extends Weight {
  readonly caller: MergedCaller
}

/** Keeps the first `limit` callers in order: sorting all of them would delay decisions. */
class FirstCallers {
  readonly #limit: number
  readonly #first: WeightedCaller[] = []

  constructor(limit: number) {
    this.#limit = limit
  }

  add(weighed: WeightedCaller): void {
    if (weighed.weight <= 0 && weighed.tiebreak <= 0) return
    const first = this.#first
    let from = 0
    let to = first.length
    while (from < to) {
      const middle = (from + to) >> 1
      const other = first[middle]
      if (other !== undefined && isBefore(weighed, other)) to = middle
      else from = middle + 1
    }
    if (from >= this.#limit) return
    first.splice(from, 0, weighed)
    if (first.length > this.#limit) first.pop()
  }

  all(): readonly MergedCaller[] {
    return this.#first.map(({ caller }) => caller)
  }
}

/** Between equal keys, the caller seen last comes first. */
function isBefore(one: WeightedCaller, other: WeightedCaller): boolean {
  if (one.weight !== other.weight) return one.weight > other.weight
  if (one.tiebreak !== other.tiebreak) return one.tiebreak > other.tiebreak
  return one.caller.lastSeenMs > other.caller.lastSeenMs
}

/** The start of the period that the figures of all nodes cover. */
export function callersSinceMs(snapshots: readonly CallersSnapshot[], nowMs: number): number {
  return snapshots.reduce((sinceMs, snapshot) => Math.min(sinceMs, snapshot.callersSinceMs), nowMs)
}

/**
 * For each rule, the maximum figure of a caller that the node did not publish. A node publishes its
 * top 20 by this figure, so any other caller has at most as much as the twentieth; if it published
 * fewer, there are no others.
 */
function floorsOf<Caller extends CallerIdentity>(
  callers: readonly Caller[],
  figureOf: (caller: Caller) => number,
): ReadonlyMap<string, number> {
  const figures = new Map<string, number[]>()
  for (const caller of callers) {
    const known = figures.get(caller.rule)
    if (known === undefined) figures.set(caller.rule, [figureOf(caller)])
    else known.push(figureOf(caller))
  }
  const floors = new Map<string, number>()
  for (const [rule, values] of figures) {
    const last = values.toSorted((a, b) => b - a)[SNAPSHOT_CALLERS_MAX - 1]
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

function mergedOf(merged: Map<string, MergedCaller>, caller: CallerIdentity): MergedCaller {
  const key = `${caller.rule}\n${caller.hash}`
  const known = merged.get(key) ?? {
    identity: caller,
    isEverybody: false,
    lastSeenMs: 0,
    hours: 0,
    refusals: { count: 0, error: 0, floors: 0 },
    use: { count: 0, error: 0, floors: 0 },
    shadowRefusals: { count: 0, error: 0, floors: 0 },
    candidateRefusals: { count: 0, error: 0, floors: 0 },
    zeroSinceMs: undefined,
    refusedCall: undefined,
    shadowCall: undefined,
  }
  merged.set(key, known)
  const isNewer = caller.lastSeenMs > known.identity.lastSeenMs
  if (hasIdentity(caller) && (isNewer || !hasIdentity(known.identity))) known.identity = caller
  known.lastSeenMs = Math.max(known.lastSeenMs, caller.lastSeenMs)
  if (caller.isEverybody === true) known.isEverybody = true
  return known
}

function addCaller(
  known: MergedCaller,
  caller: CallerSnapshot,
  floors: Floors,
  nowMs: number,
): void {
  const { rule, refusals, refusalsError, use, useError } = caller
  addTo(known.refusals, refusals, refusalsError, floors.refusals.get(rule) ?? 0)
  addTo(known.use, use, useError, floors.use.get(rule) ?? 0)
  known.hours |= caller.hours
  known.refusedCall = laterCall(known.refusedCall, caller)
  // A caller is exhausted if it is on every node that it calls, since the latest of them. Nodes on
  // which its limits have refilled since its last call say nothing about now.
  if (nowMs - caller.lastSeenMs <= SILENT_MS && caller.isRefilled !== true) {
    known.zeroSinceMs = Math.max(known.zeroSinceMs ?? 0, caller.zeroSinceMs ?? NOT_EXHAUSTED)
  }
}

/** The call from the node that saw the caller last. */
function laterCall(
  known: LatestCall | undefined,
  { lastRefusedCall: text, lastSeenMs }: CallerIdentity,
): LatestCall | undefined {
  if (text === undefined || text === null) return known
  return known === undefined || lastSeenMs > known.lastSeenMs ? { text, lastSeenMs } : known
}

function addShadowCaller(known: MergedCaller, caller: ShadowCallerSnapshot, floors: Floors): void {
  known.shadowCall = laterCall(known.shadowCall, caller)
  const { rule, shadowRefusals, shadowRefusalsError } = caller
  const { candidateRefusals, candidateRefusalsError } = caller
  const shadowFloor = floors.shadowRefusals.get(rule) ?? 0
  const candidateFloor = floors.candidateRefusals.get(rule) ?? 0
  addTo(known.shadowRefusals, shadowRefusals, shadowRefusalsError, shadowFloor)
  addTo(known.candidateRefusals, candidateRefusals, candidateRefusalsError, candidateFloor)
}

function hasIdentity({ caller, plan }: CallerIdentity): boolean {
  return plan !== null || Object.keys(caller).length > 0
}

function weightOf(caller: MergedCaller, order: TopOrder, nowMs: number): Weight {
  const shadowTotal = certain(caller.shadowRefusals) + certain(caller.candidateRefusals)
  if (order === 'refusals') return { weight: certain(caller.refusals), tiebreak: shadowTotal }
  if (order === 'shadow') return { weight: shadowTotal, tiebreak: 0 }
  if (order === 'use') return { weight: certain(caller.use), tiebreak: 0 }
  const hours = countHours(caller.hours)
  if (order === 'hours') return { weight: hours >= HIGHER_TIER_HOURS ? hours : 0, tiebreak: 0 }
  // The clock of another node may be slightly ahead.
  const { zeroSinceMs } = caller
  return { weight: isExhausted(zeroSinceMs) ? Math.max(1, nowMs - zeroSinceMs) : 0, tiebreak: 0 }
}

/** The figures that each order sorts by. */
const ORDERED_BY: Readonly<Record<TopOrder, readonly Figure[]>> = {
  refusals: ['refusals'],
  use: ['use'],
  zero: [],
  hours: [],
  shadow: ['shadowRefusals', 'candidateRefusals'],
}

function viewOf(caller: MergedCaller, order: TopOrder, floors: Floors): TopCallerView {
  const { identity, lastSeenMs, hours, zeroSinceMs, refusedCall, shadowCall } = caller
  const call = order === 'shadow' ? (shadowCall ?? refusedCall) : (refusedCall ?? shadowCall)
  const figures = {
    refusals: certain(caller.refusals),
    use: certain(caller.use),
    shadowRefusals: certain(caller.shadowRefusals),
    candidateRefusals: certain(caller.candidateRefusals),
  }
  let error = 0
  for (const figure of ORDERED_BY[order]) {
    // The caller is listed for its other figure: nothing of this one is guaranteed.
    if (figures[figure] === 0) continue
    // Each node that did not publish the caller may have seen up to its floor.
    const unreported = (floors[figure].get(identity.rule) ?? 0) - caller[figure].floors
    const more = caller[figure].error + unreported
    error += more
    figures[figure] += more
  }
  return {
    rule: identity.rule,
    caller: identity.caller,
    hash: identity.hash,
    isEverybody: caller.isEverybody,
    // For all callers together it would be the plan of the last one.
    plan: Object.keys(identity.caller).length === 0 ? null : identity.plan,
    lastRefusedCall: call?.text ?? null,
    ...figures,
    error,
    zeroSince: isExhausted(zeroSinceMs) ? new Date(zeroSinceMs).toISOString() : null,
    lastSeen: new Date(lastSeenMs).toISOString(),
    hoursAtLimit: countHours(hours),
  }
}

/** The guaranteed part, never below 0 whatever a node published. */
function certain({ count, error }: Sum): number {
  return Math.max(0, count - error)
}

function isExhausted(sinceMs: number | undefined): sinceMs is number {
  return sinceMs !== undefined && sinceMs !== NOT_EXHAUSTED
}

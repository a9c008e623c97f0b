/**
 * Merges node snapshots into the statistics of the fleet: buckets by number, rules by id. The
 * result equals that of one node that had made all decisions, except for rules that a node left
 * out of its snapshot.
 */
import { CooperativeYield } from '../../lib/cooperative-yield.js'
import { mergeEstimate } from './distinct-callers.js'
import { mergeInFlight } from './in-flight.js'
import { type NodeLatency, mergeLatency, quantile } from './latency.js'
import {
  LEFT_BOUNDS,
  MINUTE_BUCKETS,
  type NodeSnapshot,
  RULE_BUCKET_MS,
  RULE_BUCKETS,
  SNAPSHOT_PRIORITIES_MAX,
  SNAPSHOT_RULES_MAX,
  type RuleSnapshot,
  type SeriesSnapshot,
  type StoreSnapshot,
  BUCKET_MS,
  BUCKETS,
} from './node-snapshot.js'
import { commonEnd, mergeSeries } from './series.js'
import type {
  LatencyView,
  PriorityStatsView,
  RuleStatsView,
  RuleTickView,
  SeriesView,
  ShedRateView,
  NodeSnapshotView,
  StatsView,
  TickView,
} from './stats-views.js'

/** The snapshot of this node, which is the newest, and those of the others. */
export interface FleetSnapshot {
  readonly own: NodeSnapshot
  readonly others: readonly NodeSnapshot[]
  /** False if the snapshots of the others could not be read. */
  readonly isWhole: boolean
  /** When it was taken. */
  readonly atMs: number
}

const MINUTE_MS = 60_000
/** Rates cover the last ten seconds. */
const RATE_BUCKETS = 5
/** Rules pushed every two seconds; the others are read on request. */
const TICK_RULES_MAX = 100

/** With `rule`, only that one, however few decisions it made. */
export async function mergeStats(fleet: FleetSnapshot, rule?: string): Promise<StatsView> {
  const { own, others, isWhole, atMs } = fleet
  const all = [own, ...others]
  const series = mergeAll(all, ({ total }) => total, BUCKETS)
  const { length } = series.allowed
  const latency = (read: (snapshot: NodeSnapshot) => NodeLatency['latency']): LatencyView =>
    latencyView(
      all.map((snapshot) => ({ latency: read(snapshot), end: snapshot.total.end })),
      { end: series.end, length },
    )
  return {
    at: new Date(atMs).toISOString(),
    nodes: all.length,
    isWhole,
    rulesVersion: own.rulesVersion,
    series: seriesView(series, BUCKET_MS),
    decisionLatency: latency(({ decisions }) => decisions),
    storeLatency: latency(({ store }) => store),
    minutes: seriesView(
      mergeAll(all, ({ minutes }) => minutes, MINUTE_BUCKETS),
      MINUTE_MS,
    ),
    store: storeView(all),
    rules: await mergeRules(all, rule),
    priorities: mergePriorities(all, { end: series.end, length }),
    inFlight: mergeInFlight(all),
  }
}

/** The last bucket of the statistics, for clients that have the earlier ones. */
export function tickOf(stats: StatsView): TickView {
  const { series, decisionLatency, storeLatency, store, rules, priorities, inFlight } = stats
  return {
    at: stats.at,
    rulesVersion: stats.rulesVersion,
    nodes: stats.nodes,
    isWhole: stats.isWhole,
    endMs: series.endMs,
    allowed: last(series.allowed),
    refused: last(series.refused),
    shadowRefused: last(series.shadowRefused),
    degraded: last(series.degraded),
    decisionP50Ms: decisionLatency.p50Ms.at(-1) ?? null,
    decisionP99Ms: decisionLatency.p99Ms.at(-1) ?? null,
    storeP50Ms: storeLatency.p50Ms.at(-1) ?? null,
    storeP99Ms: storeLatency.p99Ms.at(-1) ?? null,
    store,
    rules: rules.slice(0, TICK_RULES_MAX).map(ruleTick),
    priorities: priorities.map(({ priority, admitted, shed, shadowShed }) => ({
      priority,
      admitted: last(admitted),
      shed: last(shed),
      shadowShed: last(shadowShed),
    })),
    inFlight,
  }
}

/** The nodes of the fleet, this one first. */
export function nodeViews({ own, others, atMs }: FleetSnapshot): readonly NodeSnapshotView[] {
  return [own, ...others].map((snapshot) => {
    const { node, release, rulesVersion, problem, startedAt, total, storeHealth } = snapshot
    const { allowed, refused, shadowRefused } = total
    return {
      ...node,
      release,
      rulesVersion,
      // Present even if there is none, which overrides an earlier problem in the rule store.
      ...(problem !== undefined && { problem: problem ?? undefined }),
      startedAt,
      seenMsAgo: Math.max(0, Math.round(atMs - snapshot.atMs)),
      decisionsPerSecond: rateOf([allowed, refused, shadowRefused]),
      refusalsPerSecond: rateOf([refused]),
      clockOffsetMs: furthest(storeHealth.nodes.map(({ clockOffsetMs }) => clockOffsetMs)),
      store: storeHealth.state,
    }
  })
}

/** In the order of this node; priorities that only others have come last. */
function seriesByPriority(
  all: readonly NodeSnapshot[],
): readonly (readonly [priority: string, series: readonly SeriesSnapshot[]])[] {
  const byName = new Map<string, SeriesSnapshot[]>()
  for (const { priority, series } of all.flatMap(({ priorities = [] }) => priorities)) {
    byName.set(priority, [...(byName.get(priority) ?? []), series])
  }
  return [...byName].slice(0, SNAPSHOT_PRIORITIES_MAX)
}

/** Of each priority of which calls were shed in the last ten seconds: how many. */
export function shedRates(all: readonly NodeSnapshot[]): readonly ShedRateView[] {
  return seriesByPriority(all).flatMap(([priority, list]) => {
    const rate = (read: (series: SeriesSnapshot) => readonly number[]) =>
      sum(list.map((series) => rateOf([read(series)])))
    const perSecond = rate(({ refused }) => refused)
    const admitted = rate(({ allowed }) => allowed)
    return perSecond === 0 ? [] : { priority, perSecond, share: perSecond / (perSecond + admitted) }
  })
}

function mergePriorities(
  all: readonly NodeSnapshot[],
  { end, length }: { readonly end: number; readonly length: number },
): readonly PriorityStatsView[] {
  return seriesByPriority(all).map(([priority, list]) => {
    const { allowed, refused, shadowRefused } = mergeSeries(list, { end, capacity: length })
    // A node that has begun later has fewer steps than the series of all calls.
    const fill = (counts: readonly number[]) => [
      ...Array.from({ length: length - counts.length }, () => 0),
      ...counts,
    ]
    return {
      priority,
      admitted: fill(allowed),
      shed: fill(refused),
      shadowShed: fill(shadowRefused),
    }
  })
}

/** Yields to the event loop: merging many nodes would otherwise delay decisions. */
async function mergeRules(
  all: readonly NodeSnapshot[],
  only: string | undefined,
): Promise<readonly RuleStatsView[]> {
  const byRule = new Map<string, RuleSnapshot[]>()
  for (const { rules } of all) {
    for (const rule of rules) {
      if (only !== undefined && rule.rule !== only) continue
      const known = byRule.get(rule.rule)
      if (known === undefined) byRule.set(rule.rule, [rule])
      else known.push(rule)
    }
  }
  // All rules of a node end with the same bucket; nodes without rules do not matter.
  const [ownEnd, ...ends] = all.flatMap(({ rules }) => rules[0]?.series.end ?? [])
  const end = commonEnd(ownEnd ?? 0, ends)
  const merged: MergedRule[] = []
  const slices = new CooperativeYield()
  for (const snapshots of byRule.values()) {
    merged.push(mergeRule(snapshots, end))
    if (slices.isDue()) await slices.pause()
  }
  return merged
    .sort(byRefusals)
    .slice(0, SNAPSHOT_RULES_MAX)
    .map(({ view }) => view)
}

interface MergedRule {
  readonly view: RuleStatsView
  readonly refused: number
  readonly decisions: number
}

function mergeRule(snapshots: readonly RuleSnapshot[], end: number): MergedRule {
  const series = mergeSeries(
    snapshots.map((rule) => rule.series),
    { end, capacity: RULE_BUCKETS },
  )
  const candidates = snapshots.flatMap(({ candidate }) => candidate ?? [])
  const sketches = snapshots.flatMap(({ sketch }) => sketch ?? [])
  const sinces = snapshots.flatMap(({ refusingSinceMs }) => refusingSinceMs ?? [])
  const refused = sum(series.refused)
  const view = {
    rule: snapshots[0]?.rule ?? '',
    series: seriesView(series, RULE_BUCKET_MS),
    candidate:
      candidates.length === 0
        ? null
        : seriesView(mergeSeries(candidates, { end, capacity: RULE_BUCKETS }), RULE_BUCKET_MS),
    refusingSince: sinces.length === 0 ? null : new Date(Math.min(...sinces)).toISOString(),
    callers: sketches.length === 0 ? null : Math.round(mergeEstimate(sketches)),
    left: LEFT_BOUNDS.map((_, place) => sum(snapshots.map(({ left }) => left[place] ?? 0))),
  }
  return { view, refused, decisions: refused + sum(series.allowed) + sum(series.shadowRefused) }
}

/** Most refusals first, then most decisions, then by name. */
function byRefusals(a: MergedRule, b: MergedRule): number {
  const difference = b.refused - a.refused || b.decisions - a.decisions
  return difference === 0 ? (a.view.rule < b.view.rule ? -1 : 1) : difference
}

function ruleTick({ rule, series, candidate, refusingSince }: RuleStatsView): RuleTickView {
  return {
    rule,
    endMs: series.endMs,
    allowed: last(series.allowed),
    refused: last(series.refused),
    shadowRefused: last(series.shadowRefused),
    candidateAllowed: candidate === null ? 0 : last(candidate.allowed),
    candidateRefused:
      candidate === null ? 0 : last(candidate.refused) + last(candidate.shadowRefused),
    refusingSince,
  }
}

/** This node is first: its last bucket is the newest that the result may contain. */
function mergeAll(
  all: readonly NodeSnapshot[],
  read: (snapshot: NodeSnapshot) => SeriesSnapshot,
  capacity: number,
): SeriesSnapshot {
  const series = all.map(read)
  const [own, ...ends] = series.map(({ end }) => end)
  return mergeSeries(series, { end: commonEnd(own ?? 0, ends), capacity })
}

function seriesView(series: SeriesSnapshot, stepMs: number): SeriesView {
  const { end, allowed, refused, shadowRefused, degraded } = series
  return { stepMs, endMs: end * stepMs, allowed, refused, shadowRefused, degraded }
}

function latencyView(
  all: readonly NodeLatency[],
  range: { readonly end: number; readonly length: number },
): LatencyView {
  const { bounds, steps } = mergeLatency(all, range)
  const read = (q: number) =>
    steps.map((counts) => {
      const seconds = counts === undefined ? null : quantile(bounds, counts, q)
      return seconds === null ? null : milliseconds(seconds)
    })
  return { p50Ms: read(0.5), p99Ms: read(0.99) }
}

/** Rounds to three digits, which exceed the precision of the histogram. */
function milliseconds(seconds: number): number {
  return Number((seconds * 1000).toPrecision(3))
}

/** The store as this node sees it; well only if all nodes say so. */
function storeView(all: readonly NodeSnapshot[]): StoreSnapshot {
  const [own] = all
  if (own === undefined) throw new Error('no node snapshot')
  return { ...own.storeHealth, isWell: all.every(({ storeHealth }) => storeHealth.isWell) }
}

function rateOf(fields: readonly (readonly number[])[]): number {
  const steps = Math.min(RATE_BUCKETS, fields[0]?.length ?? 0)
  if (steps === 0) return 0
  const count = sum(fields.map((counts) => sum(counts.slice(-steps))))
  return Math.round((count / (steps * BUCKET_MS)) * 10_000) / 10
}

function furthest(offsets: readonly (number | null)[]): number | null {
  const known = offsets.filter((offset) => offset !== null)
  return known.toSorted((a, b) => Math.abs(b) - Math.abs(a))[0] ?? null
}

function last(counts: readonly number[]): number {
  return counts.at(-1) ?? 0
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0)
}

/**
 * What all nodes saw together: steps added up by their numbers, rules by their ids. Each number is
 * what one node would tell that had made all the decisions; only what a node does not tell, because
 * it has more rules than are told, is missing.
 */
import { CooperativeYield } from '../../lib/cooperative-yield.js'
import { mergeEstimate } from './distinct-callers.js'
import { type NodeLatency, mergeLatency, quantile } from './latency.js'
import {
  LEFT_BOUNDS,
  MINUTE_BUCKETS,
  type NodeSnapshot,
  RULE_BUCKET_MS,
  RULE_BUCKETS,
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
  RuleStatsView,
  RuleTickView,
  SeriesView,
  NodeSnapshotView,
  StatsView,
  TickView,
} from './stats-views.js'

/** The own sight, which is the freshest, and those of others. */
export interface FleetSnapshot {
  readonly own: NodeSnapshot
  readonly others: readonly NodeSnapshot[]
  /** False: what the others left could not be read. */
  readonly isWhole: boolean
  /** When it was looked. */
  readonly atMs: number
}

const MINUTE_MS = 60_000
/** Rates are of the last ten seconds. */
const RATE_BUCKETS = 5
/** Rules whose last step is told every two seconds; all others are told when somebody asks. */
const TICK_RULES_MAX = 100

/** `rule`: only that one, however little it does. */
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
  }
}

/** The last step of it, for those who have the others. */
export function tickOf(stats: StatsView): TickView {
  const { series, decisionLatency, storeLatency, store, rules } = stats
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
  }
}

/** Each node as it told of itself, this one first. */
export function nodeViews({ own, others, atMs }: FleetSnapshot): readonly NodeSnapshotView[] {
  return [own, ...others].map((snapshot) => {
    const { node, release, rulesVersion, problem, startedAt, total, storeHealth } = snapshot
    const { allowed, refused, shadowRefused } = total
    return {
      ...node,
      release,
      rulesVersion,
      // There also where there is none: what the rule store was told before is over then.
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

/** In turns: of many nodes it is work for longer than a decision may wait. */
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
  // All rules of a node end with the same step; a node without any holds nobody up.
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

/** Most refusals first, then most decisions; by name where all is the same. */
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

/** The own is first: what it has not told of yet, nobody waits for. */
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

/** Three digits are more than a histogram knows. */
function milliseconds(seconds: number): number {
  return Number((seconds * 1000).toPrecision(3))
}

/** As this node sees it; well only where it is so for all. */
function storeView(all: readonly NodeSnapshot[]): StoreSnapshot {
  const [own] = all
  if (own === undefined) throw new Error('no sight at all')
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

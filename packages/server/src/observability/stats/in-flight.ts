/** Calls in flight against the limits of rules, with their peaks, of one node and of the fleet. */
import { ceilingUnits, type Rule } from '@sluice/core'
import type { RuleCatalog } from '../../rules/sync/rule-catalog.js'
import { type InFlightSnapshot, type NodeSnapshot, SNAPSHOT_RULES_MAX } from './node-snapshot.js'

/** Calls in flight by the id of the rule that counts them. */
export type CallsInFlight = ReadonlyMap<string, { readonly inFlight: number; readonly max: number }>

/** An hour has the peak of the day's traffic at some time, and a short outage is soon out of it. */
const PEAK_MINUTES = 60

/**
 * Describes the calls in flight of the rules that the catalog has: whose limit it is, and the
 * ceilings of priorities. The rules with most of them, if there are very many.
 */
export function describeInFlight(
  calls: CallsInFlight,
  catalog: Pick<RuleCatalog, 'set' | 'parser' | 'rule'>,
): readonly Omit<InFlightSnapshot, 'peak'>[] {
  const { set, parser } = catalog
  const rules = [...calls].toSorted(([, a], [, b]) => b.inFlight - a.inFlight)
  return rules.slice(0, SNAPSHOT_RULES_MAX).flatMap(([id, { inFlight, max }]) => {
    const documents = catalog.rule(id)
    const rule = documents && parser.parseRule(documents).rule
    if (rule === undefined) return []
    const isPerNode = rule.coordination === 'node'
    const isPerCaller = rule.by.length > 0
    const ceilings = isPerCaller ? [] : ceilingsOf(max, rule.headroom, set.priorities)
    return { rule: id, inFlight, max, isPerNode, isPerCaller, ceilings }
  })
}

/** The ceilings that are below the whole limit. */
function ceilingsOf(
  max: number,
  headroom: Rule['headroom'],
  priorities: readonly unknown[] = [],
): InFlightSnapshot['ceilings'] {
  const reserves: number[] = []
  return priorities.flatMap((name) => {
    const priority = String(name)
    const ceiling = ceilingUnits(max, reserves)
    const reserve = headroom?.get(priority)
    if (reserve !== undefined) reserves.push(reserve)
    return ceiling < max ? [{ priority, ceiling }] : []
  })
}

/** The most calls in flight of each rule in the last hour, as of the ticks. */
export class InFlightPeaks {
  /** By rule: a peak for each minute of the hour, and the minute that it is of. */
  readonly #peaks = new Map<string, { readonly minute: number; readonly peak: number }[]>()

  record(calls: readonly Omit<InFlightSnapshot, 'peak'>[], minute: number): void {
    for (const rule of this.#peaks.keys()) {
      if (!calls.some((each) => each.rule === rule)) this.#peaks.delete(rule)
    }
    for (const { rule, inFlight } of calls) {
      const peaks = this.#peaks.get(rule) ?? []
      const place = minute % PEAK_MINUTES
      const known = peaks[place]
      const before = known?.minute === minute ? known.peak : 0
      peaks[place] = { minute, peak: Math.max(before, inFlight) }
      this.#peaks.set(rule, peaks)
    }
  }

  get(rule: string, minute: number): number {
    const recent = (this.#peaks.get(rule) ?? []).filter(
      (each) => each !== undefined && each.minute > minute - PEAK_MINUTES && each.minute <= minute,
    )
    return Math.max(0, ...recent.map(({ peak }) => peak))
  }
}

/**
 * Merges the calls in flight of all nodes: the busiest node where each has the limit for itself,
 * else their sum, of whose peak the sum of the peaks is an upper bound.
 */
export function mergeInFlight(all: readonly NodeSnapshot[]): readonly InFlightSnapshot[] {
  const byRule = new Map<string, InFlightSnapshot>()
  for (const each of all.flatMap(({ inFlight = [] }) => inFlight)) {
    const known = byRule.get(each.rule)
    const isSum = known?.isPerNode === false && !each.isPerNode
    const add = (a: number, b: number) => (isSum ? a + b : Math.max(a, b))
    byRule.set(
      each.rule,
      known === undefined
        ? each
        : {
            ...known,
            inFlight: add(known.inFlight, each.inFlight),
            peak: add(known.peak, each.peak),
          },
    )
  }
  return [...byRule.values()]
    .toSorted((a, b) => shareOf(b) - shareOf(a))
    .slice(0, SNAPSHOT_RULES_MAX)
}

/** Limits of single callers come last: what all of them hold says nothing about one. */
function shareOf({ inFlight, max, isPerCaller }: InFlightSnapshot): number {
  return max === 0 || isPerCaller ? 0 : inFlight / max
}

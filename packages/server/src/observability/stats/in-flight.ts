/** Calls in flight against the limits of rules, with their peaks, of one node and of the fleet. */
import { ceilingUnits } from '@sluice/core'
import type { RuleCatalog } from '../../rules/sync/rule-catalog.js'
import { type InFlightSnapshot, type NodeSnapshot, SNAPSHOT_RULES_MAX } from './node-snapshot.js'

/** Calls in flight by the id of the rule that counts them. */
export type CallsInFlight = ReadonlyMap<string, { readonly inFlight: number; readonly max: number }>

/** An hour has the peak of the day's traffic at some time, and a short outage is soon out of it. */
const PEAK_MINUTES = 60

/** Describes calls in flight by the rules of the catalog: whose limit it is, and its ceilings. */
export function describeInFlight(
  calls: CallsInFlight,
  catalog: Pick<RuleCatalog, 'set' | 'parser' | 'rule'>,
): readonly Omit<InFlightSnapshot, 'peak'>[] {
  const { set, parser } = catalog
  return [...calls].slice(0, SNAPSHOT_RULES_MAX).map(([id, { inFlight, max }]) => {
    const documents = catalog.rule(id)
    const headroom = documents && parser.parseRule(documents).rule?.headroom
    const reserves: number[] = []
    const ceilings = (set.priorities ?? []).flatMap((name) => {
      const priority = String(name)
      const ceiling = ceilingUnits(max, reserves)
      const reserve = headroom?.get(priority)
      if (reserve !== undefined) reserves.push(reserve)
      return ceiling < max ? [{ priority, ceiling }] : []
    })
    const isPerNode = documents?.document['coordination'] === 'node'
    return { rule: id, inFlight, max, isPerNode, ceilings }
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
 * else their sum, of which the peak is an upper bound.
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

function shareOf({ inFlight, max }: InFlightSnapshot): number {
  return max === 0 ? 0 : inFlight / max
}

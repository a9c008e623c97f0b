/**
 * All regions together grant no more of a window than max, and what the others granted before it
 * was known; nor more than the limit of each region. Near the edge of a window clocks differ, so
 * what was granted there may count in none elsewhere. What buckets grant beyond that is paid back:
 * over time the rate holds.
 *
 * During a partition every part admits the whole limit: regions of which every two have been
 * connected for the whole run are one part. What a node never learned or told is granted again.
 */
import { algorithmOf, windowNumberOf } from '@sluice/core'
import { atOnce, Meter, perUs } from '../../invariants/meter.js'
import type { RegionScenario } from '../region-scenario.js'
import { disturbs, type MergedCounter, type RegionTruth, type Taken } from '../region-truth.js'
import { apartUs, delayUs, isNearEdge, reachUs, readyUs } from './delays.js'
import type { MakeRegionInvariant } from './region-invariant.js'

const DRIFT = 1 / 1000

export const overAdmission: MakeRegionInvariant = ({ truth }) => ({
  name: 'regions over-admit within their bound',
  atEnd: () => {
    const parts = partsOf(truth)
    for (const counter of truth.counters.values()) {
      // What a node spends before it asks is bounded by the rule of the node, not by regions.
      const reports = counter.taken.some(({ isGranted }) => !isGranted)
      if (counter.isReset || reports) continue
      const excess = excessOf(counter, parts, truth)
      if (excess > 0) return `${excess.toFixed(3)} above the bound of ${counter.limit.name}`
    }
    return undefined
  },
})

function excessOf(counter: MergedCounter, parts: number, truth: RegionTruth): number {
  const { limit, taken, given } = counter
  const { scenario } = truth
  const late = unseen(taken, truth)
  const lost = lostOf(counter, truth)
  const { family, windowsCounted } = algorithmOf(limit)
  const sum = (list: readonly Taken[]) => list.reduce((all, { units }) => all + units, 0)
  if (family !== 'bucket' && windowsCounted === 1) {
    const windows = new Map<number, Taken[]>()
    for (const each of taken) {
      const window = windowNumberOf(limit, each.at)
      windows.set(window, [...(windows.get(window) ?? []), each])
    }
    let most = 0
    for (const all of windows.values()) {
      const near = all.filter(({ at }) => isNearEdge(limit, at, apartUs(scenario)))
      const bound = parts * limit.max + unseen(all, truth) + sum(near) + lost + given
      most = Math.max(most, sum(all) - bound)
    }
    return most
  }
  const regions = scenario.settings.regions.length
  const owed = Math.max(limit.capacity, regions, regions * perUs(limit) * 1_000_000)
  // What a bucket cannot owe is forgiven; a sliding counter forgets what is beyond its max.
  if (family === 'bucket' && late + lost > owed) return 0
  const again = family === 'bucket' ? 0 : (late + lost) / limit.windowUs
  const rate = perUs(limit) * (1 + DRIFT) + again
  const slackUs = reachUs(scenario) + (family === 'bucket' ? 1 : 2) * apartUs(scenario)
  const most = parts * (atOnce(limit) + rate * slackUs) + 2 * late + lost + given
  const meter = new Meter(most, parts * rate)
  return taken.reduce((worst, { units, trueUs }) => Math.max(worst, meter.add(units, trueUs)), 0)
}

/** The most units that were granted elsewhere and not known yet when a region granted some. */
function unseen(taken: readonly Taken[], { scenario }: RegionTruth): number {
  let most = 0
  for (const [i, { region, trueUs }] of taken.entries()) {
    let units = 0
    for (let k = i - 1; k >= 0; k--) {
      const other = taken[k]
      if (other === undefined || other.region === region) continue
      const knownUs = other.trueUs + delayUs(scenario, other.region, region)
      if (Math.max(knownUs, readyUs(scenario, other.region, region)) > trueUs) units += other.units
    }
    most = Math.max(most, units)
  }
  return most
}

/** What nodes took and never told, over links that no fault has disturbed. */
function lostOf(counter: MergedCounter, { scenario }: RegionTruth): number {
  let lost = 0
  for (const [node, { units }] of counter.takenBy) {
    const own = scenario.nodes.find(({ name }) => name === node)?.region ?? ''
    let most = 0
    for (const { name: to } of scenario.settings.regions) {
      if (to === own || !isConnected(own, to, scenario)) continue
      const told = counter.told.get(`${node}>${to}`)?.units ?? 0
      most = Math.max(most, units - told)
    }
    lost += most
  }
  return lost
}

/** The fewest groups of regions of which every two have always been connected. */
function partsOf({ scenario }: RegionTruth): number {
  const names = scenario.settings.regions.map(({ name }) => name)
  return fewestParts(names, [], (a, b) => isConnected(a, b, scenario))
}

function fewestParts(
  [first, ...rest]: readonly string[],
  parts: readonly (readonly string[])[],
  isTogether: (a: string, b: string) => boolean,
): number {
  if (first === undefined) return parts.length
  let fewest = fewestParts(rest, [...parts, [first]], isTogether)
  for (const [i, part] of parts.entries()) {
    if (!part.every((other) => isTogether(first, other))) continue
    const joined = parts.map((each, k) => (k === i ? [...each, first] : each))
    fewest = Math.min(fewest, fewestParts(rest, joined, isTogether))
  }
  return fewest
}

/** While a node is paused, what it took is told to nobody. */
function isConnected(one: string, two: string, { nodes, faults }: RegionScenario): boolean {
  return faults.every((fault) => {
    if (!('node' in fault)) return !disturbs(fault, '', one, two)
    // What a node did not learn, or did not tell before it was killed, is counted as lost.
    if (fault.kind !== 'pause') return true
    const region = nodes.find(({ name }) => name === fault.node)?.region
    return region !== one && region !== two
  })
}

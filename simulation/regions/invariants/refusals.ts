/**
 * Nobody is refused because a region counts more than was spent: a window refuses only what does
 * not fit beside all that was taken in it anywhere, a bucket only what does not fit beside what all
 * took, less what it regained before it knew. Neither does a partition silence a caller for longer
 * than its bucket takes to regain what it may owe.
 */
import { algorithmOf, windowNumberOf } from '@sluice/core'
import { Meter, perUs } from '../../invariants/meter.js'
import type { MergedCounter, Refusal, RegionTruth } from '../region-truth.js'
import { apartUs, delayUs, reachUs } from './delays.js'
import type { MakeRegionInvariant } from './region-invariant.js'

const ROUNDING_UNITS = 1.001
const DRIFT = 1 / 1000

export const refusals: MakeRegionInvariant = ({ truth }) => ({
  name: 'no region refuses for units that nobody spent',
  onRefused: (refusal) => {
    const { counter, take } = refusal
    if (take.amount > take.limit.capacity) return undefined
    const { family, windowsCounted } = algorithmOf(counter.limit)
    if (family === 'bucket') return ofBucket(refusal, truth)
    return windowsCounted === 1 ? ofWindow(refusal, truth) : undefined
  },
})

function ofWindow({ counter, take, region, at }: Refusal, { scenario }: RegionTruth) {
  const nearUs = apartUs(scenario)
  const first = windowNumberOf(counter.limit, at - nearUs)
  const last = windowNumberOf(counter.limit, at + nearUs)
  let spent = 0
  for (const each of counter.taken) {
    const window = windowNumberOf(counter.limit, each.at)
    if (window >= first && window <= last) spent += each.units
  }
  if (spent + take.amount > take.limit.max) return undefined
  return `${region} refuses ${take.amount} of ${take.limit.max}, of which ${spent} are spent`
}

function ofBucket(refusal: Refusal, truth: RegionTruth) {
  const { counter, take, region, trueUs } = refusal
  const { limit } = counter
  const rate = perUs(limit)
  if (rate === 0) return undefined
  const lastUs = counter.taken.at(-1)?.trueUs ?? -Infinity
  const regions = truth.scenario.settings.regions.length
  const owed = Math.ceil(Math.max(limit.capacity, limit.debt, regions, regions * rate * 1_000_000))
  const mostUs = ((owed + take.amount) / rate) * (1 + DRIFT) + 2 * apartUs(truth.scenario)
  if (trueUs - lastUs > mostUs + longestDelayUs(truth, region))
    return `${region} refuses ${trueUs - lastUs} us after the last use of ${limit.name}`
  const isCalm = truth.scenario.faults.length === 0
  if (!isCalm || counter.isReset || counter.taken.some(({ isGranted }) => !isGranted))
    return undefined
  const unknownUs = longestDelayUs(truth, region) + reachUs(truth.scenario)
  const early = rate * (unknownUs + apartUs(truth.scenario)) + ROUNDING_UNITS
  const room = limit.capacity - levelOf(counter, trueUs, rate)
  if (take.amount > room - early) return undefined
  return `${region} refuses ${take.amount} of ${limit.name} with room for ${room.toFixed(2)}`
}

/** What all regions have in use of a bucket. */
function levelOf({ taken }: MergedCounter, nowUs: number, rate: number): number {
  const meter = new Meter(0, rate * (1 - DRIFT))
  for (const { units, trueUs } of taken) meter.add(units, trueUs)
  return meter.add(0, nowUs)
}

function longestDelayUs({ scenario }: RegionTruth, to: string): number {
  const others = scenario.settings.regions.filter(({ name }) => name !== to)
  return Math.max(...others.map(({ name }) => delayUs(scenario, name, to)))
}

/** How late regions learn of each other, as the design says, from the settings of a run. */
import { type Limit, windowNumberOf } from '@sluice/core'
import { JITTER_MAX } from '../../ground-truth.js'
import type { RegionScenario } from '../region-scenario.js'

const ROUNDS_PER_INTERVAL = 2
/** Drift of the clocks that time the rounds, and rounding to milliseconds. */
const DRIFT = 1 / 1000
const ROUNDING_US = 2000

/** The longest way there and back between a node and the store of its region. */
export function reachUs({ settings: { delayMs, jitterMs } }: RegionScenario): number {
  return 2 * (delayMs + JITTER_MAX * jitterMs) * 1000
}

/** One way from one region to another. */
function wayUs({ settings }: RegionScenario, from: string, to: string): number {
  const { regions, jitterMs } = settings
  const farMs = regions
    .filter(({ name }) => name === from || name === to)
    .reduce((sum, each) => sum + each.farMs, 0)
  return (farMs + JITTER_MAX * jitterMs) * 1000
}

/**
 * From the moment at which a store takes a unit until another region is told: half of a round and
 * the way.
 */
export function delayUs(scenario: RegionScenario, from: string, to: string): number {
  const roundUs = (scenario.settings.syncEveryMs * 1000) / ROUNDS_PER_INTERVAL
  const us = reachUs(scenario) + roundUs + wayUs(scenario, from, to)
  return us * (1 + DRIFT) + ROUNDING_US
}

/** When links can be used: after their first answer. */
export function readyUs(scenario: RegionScenario, from: string, to: string): number {
  const { startUs } = scenario.settings
  return startUs + 2 * wayUs(scenario, from, to) + delayUs(scenario, from, to)
}

/** The most that the clocks of two stores are apart, with what a node may be wrong about them. */
export function apartUs({ settings }: RegionScenario): number {
  const ahead = settings.regions.map(({ storeAheadMs }) => storeAheadMs)
  return (Math.max(...ahead) - Math.min(...ahead)) * 1000 + 10_000
}

/**
 * Whether a time is so close to the edge of a window that another store may be in the other one.
 */
export function isNearEdge(limit: Limit, at: number, nearUs: number): boolean {
  return windowNumberOf(limit, at - nearUs) !== windowNumberOf(limit, at + nearUs)
}

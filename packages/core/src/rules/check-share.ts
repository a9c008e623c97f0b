/**
 * What a rule grants by itself while the store is silent: a factor of each limit. A factor above 1
 * may be more than a limit of that algorithm can count.
 */
import { algorithms } from '../algorithms/index.js'
import { defineLimit, type LimitSpec } from '../limit.js'
import { locatedLimitsOf } from './located-limits.js'
import type { LocatedRule } from './parse-rule.js'
import { reportAt, type Located } from './reader.js'
import type { Posture } from './rule.js'

/** For a rule without problems. A candidate passes while the store is silent, and has no share. */
export function checkShares({ rule, map }: LocatedRule): void {
  if (factorOf(rule.posture) <= 1) return
  for (const { located, limit, isCandidate } of locatedLimitsOf(rule, map)) {
    if (!isCandidate) checkShareOf(limit, rule.posture, located)
  }
}

/** The largest share is that of a node alone, so no fleet has one that cannot be counted. */
export function checkShareOf(limit: LimitSpec, posture: Posture, located: Located): void {
  const factor = factorOf(posture)
  if (factor <= 1) return
  const { algorithm, max } = limit
  const { capacity } = defineLimit(limit)
  const { largestMax, largestCapacity } = algorithms[algorithm]
  const isHeld = isWithin(factor, capacity, largestCapacity)
  if (isHeld && isWithin(factor, max, largestMax)) return
  const [units, most] = isHeld ? [max, largestMax] : [capacity, largestCapacity]
  reportAt(located, 'share-too-large', {
    found: `${factor} times ${units}`,
    why: `the ${most} that a ${algorithm} can count`,
    accepted: `posture: { local: factor } with a factor up to ${shorten(most / units)}, or a smaller limit`,
  })
}

function factorOf(posture: Posture): number {
  return typeof posture === 'string' ? 1 : posture.local
}

/** Rounded up, as the share is. */
function isWithin(factor: number, units: number, most: number): boolean {
  return Math.ceil(factor * units) <= most
}

/** To two places, rounded down. */
function shorten(factor: number): number {
  return Math.floor(factor * 100) / 100
}

/**
 * Checks the local share of a rule: the factor of each limit that a node grants while the store
 * does not answer. A factor above 1 may exceed what an algorithm can count.
 */
import { moduleOf } from '../algorithms/index.js'
import { defineLimit, type LimitSpec } from '../limit.js'
import { locatedLimitsOf } from './located-limits.js'
import type { LocatedRule } from './parse-rule.js'
import { reportAt, type Located } from './reader.js'
import type { Posture } from './rule.js'

/**
 * For a rule without problems. A candidate has no share: it passes while the store does not answer.
 */
export function checkShares({ rule, map }: LocatedRule): void {
  if (factorOf(rule.posture) <= 1) return
  for (const { located, limit, isCandidate } of locatedLimitsOf(rule, map)) {
    if (!isCandidate) checkShareOf(limit, rule.posture, located)
  }
}

/** Checks the share of a single node, which is the largest one in any fleet. */
export function checkShareOf(limit: LimitSpec, posture: Posture, located: Located): void {
  const factor = factorOf(posture)
  if (factor <= 1) return
  const { algorithm, max } = limit
  const { capacity } = defineLimit(limit)
  const { largestMax, largestCapacity } = moduleOf(limit)
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

/** Rounded up, like the share itself. */
function isWithin(factor: number, units: number, most: number): boolean {
  return Math.ceil(factor * units) <= most
}

/** Rounds down to two decimals. */
function shorten(factor: number): number {
  return Math.floor(factor * 100) / 100
}

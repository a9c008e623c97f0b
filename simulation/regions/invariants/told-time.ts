/**
 * What a region is told carries the time at which it was spent, by the clock of the store that took
 * it: of one of the takes that a report sums up. A bucket is charged later by what its debt takes
 * to be regained; the node's own knowledge of the clock may be earlier by the way to its store.
 */
import { algorithmOf } from '@sluice/core'
import { takenByOf } from '../region-truth.js'
import { reachUs } from './delays.js'
import type { MakeRegionInvariant } from './region-invariant.js'

const ROUNDING_US = 2000

export const toldTime: MakeRegionInvariant = ({ truth }) => ({
  name: 'what is told carries the time of its use',
  onTold: ({ counter, way, at }) => {
    const { times } = takenByOf(counter, way.node)
    const { limit } = counter
    if (algorithmOf(limit).family !== 'bucket')
      return times.has(at) ? undefined : `${way.node} told ${way.to} units at ${at}`
    // Reports to the own store are later than their use, and told as of when they were reported.
    if (counter.taken.some(({ isGranted }) => !isGranted)) return undefined
    const { borrowable, p, q, tickUs } = limit
    const spentAt = at - (p === 0 ? 0 : Math.ceil((borrowable * q) / p) * tickUs)
    const nearUs = reachUs(truth.scenario) + ROUNDING_US
    for (const time of times) if (spentAt <= time && spentAt >= time - nearUs) return undefined
    return `${way.node} told ${way.to} of a bucket as of ${spentAt}`
  },
})

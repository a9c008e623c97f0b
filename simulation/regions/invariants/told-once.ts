/**
 * No unit is told twice: a node tells another region no more of a counter than it took itself, in
 * each window. So nothing is told again that may have arrived, and what a region was told is not
 * passed on. The same holds of what is given back.
 */
import { algorithmOf, windowNumberOf } from '@sluice/core'
import { takenByOf } from '../region-truth.js'
import type { MakeRegionInvariant } from './region-invariant.js'

export const toldOnce: MakeRegionInvariant = ({ truth }) => ({
  name: 'no unit is told twice',
  onTold: ({ counter, way, at }) => {
    const told = truth.toldOf(counter, way)
    const taken = takenByOf(counter, way.node)
    const whole = `${way.node} took ${taken.units} and told ${way.to} ${told.units}`
    if (told.units > taken.units) return whole
    if (told.returned > taken.given) return `${way.node} gave back more than it was given`
    // A bucket is charged later than its units were spent, so that they fall in other windows.
    if (algorithmOf(counter.limit).family === 'bucket') return undefined
    const window = windowNumberOf(counter.limit, at)
    const [most = 0, units = 0] = [taken.byWindow.get(window), told.byWindow.get(window)]
    if (units <= most) return undefined
    return `${way.node} took ${most} in window ${window} and told ${way.to} ${units}`
  },
})

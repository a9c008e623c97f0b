/**
 * A node knows the store's clock as well as it says: what it takes for the store's time is off by
 * no more than the uncertainty it tells, and a millisecond for what drifts between two answers. A
 * machine that sleeps, or a store whose clock steps, makes that wrong until the next answer.
 */
import type { MakeInvariant } from './invariant.js'

const ROUNDING_US = 1000
const DISRUPTION_US = 6_000_000

export const knownClock: MakeInvariant = (truth) => ({
  name: 'the clock is known as well as a node says',
  onDecision: ({ call, trueUs, storeUs, nodeUs, uncertaintyUs }) => {
    if (truth.wasSuspended(call.node) || truth.isDisrupted(trueUs, DISRUPTION_US)) return undefined
    const off = Math.abs(nodeUs - storeUs)
    if (off <= uncertaintyUs + ROUNDING_US) return undefined
    return `${call.node} is ${Math.round(off)} us off and says ${Math.round(uncertaintyUs)}`
  },
})

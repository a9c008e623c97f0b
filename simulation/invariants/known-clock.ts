/**
 * A node's estimate of the store's time is off by at most the uncertainty it reports, plus a
 * millisecond for drift between two answers. A sleep of the machine or a step of the store's clock
 * breaks that until the next answer.
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

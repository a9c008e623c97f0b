/**
 * A node holds at most q units of a counter beyond what its calls need: floor(maxStranded *
 * capacity / n) for the n nodes it knows of, so that all nodes together strand at most
 * `maxStranded` of the limit. Units that a bucket has refilled meanwhile do not count. Checked
 * after every event in runs with a normal network.
 */
import { isEver, maxHeld } from '../sim-counter.js'
import type { MakeInvariant } from './invariant.js'

export const leaseShare: MakeInvariant = (truth) => ({
  name: 'leases hold no more than their share',
  onStep: () => {
    if (!truth.isCalm) return undefined
    for (const account of truth.accounts.values()) {
      const { node, counter, granted, spent, refunded, givesTried, regained } = account
      // Leases of a counter that is reset are dropped.
      if (!isEver(counter, 'leased') || counter.resetsUs.length > 0) continue
      const most = maxHeld(counter, [truth.fewestNodes.get(node) ?? 1])
      const used = spent - refunded + truth.pendingUnits(node, counter)
      const has = granted - regained - used - givesTried
      if (has > most) return `${node} holds ${has} of ${counter.rule}; ${most} at most`
    }
    return undefined
  },
})

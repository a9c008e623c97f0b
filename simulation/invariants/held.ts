/**
 * A node holds at most q units of a counter beyond what its calls need: floor(maxStranded *
 * capacity / n) for the n nodes it knows of, so that all together strand at most `maxStranded` of
 * the limit. What a bucket has regained meanwhile is held by nobody. Checked after every event,
 * where the network is as fast as it should be.
 */
import type { MakeInvariant } from './invariant.js'

export const held: MakeInvariant = (truth) => ({
  name: 'leases hold no more than their share',
  onStep: () => {
    if (!truth.isCalm) return undefined
    for (const account of truth.accounts.values()) {
      const { node, counter, granted, spent, givesTried, regained } = account
      const { coordination, maxStranded, rule } = counter.of
      if (coordination !== 'leased') continue
      const most = Math.floor(
        (maxStranded * counter.limit.capacity) / (truth.fewest.get(node) ?? 1),
      )
      const has = granted - regained - spent - givesTried - truth.pending(node, counter)
      if (has > most) return `${node} holds ${has} of ${rule}; ${most} at most`
    }
    return undefined
  },
})

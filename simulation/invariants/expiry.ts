/**
 * Everything expires: when all is over and so long ago that no limit remembers it, every counter of
 * the store is as new, and no node holds or counts anything. What was spent while the store was
 * silent may wait for the next call that the store answers; by then it is too old to be charged. So
 * may what was to go back to it.
 */
import type { MakeInvariant } from './invariant.js'

export const expiry: MakeInvariant = (truth) => ({
  name: 'everything expires',
  atEnd: (nodes) => {
    for (const { key, rule, variants } of truth.counters.values()) {
      // By the one that regains fastest: it need not be the last.
      const [limit] = variants.map((compiled) => compiled.limit).sort((a, b) => b.max - a.max)
      if (limit === undefined) continue
      const [[peeked] = []] = truth.server.counters.sync.peek([[{ key, limit, amount: 0 }]])
      if (peeked === undefined || peeked.remaining === limit.capacity) continue
      // A clock that was set back far remembers for as long.
      if (truth.disruptions.some(({ kind }) => kind === 'store-jump')) continue
      return `${rule} has ${peeked.remaining} of ${limit.capacity} left`
    }
    for (const { name, held, counters, reportsWaiting } of nodes) {
      if (held > 0) return `${name} holds ${held} units`
      if (counters > 0) return `${name} counts ${counters} callers`
      if (reportsWaiting > 0 && truth.isCalm) return `${name} has ${reportsWaiting} reports waiting`
    }
    return undefined
  },
})

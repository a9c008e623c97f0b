/**
 * Everything expires: long after a run, when no limit depends on it any more, every counter of the
 * store is unused, and no node holds or counts anything. Usage without the store, and units to give
 * back, may wait for the next call that the store answers; by then they are too old to be charged.
 */
import type { MakeInvariant } from './invariant.js'

export const expiry: MakeInvariant = (truth) => ({
  name: 'everything expires',
  atEnd: (nodes) => {
    for (const { key, rule, variants } of truth.counters.values()) {
      // By the limit that refills fastest, which need not be the last one.
      const [limit] = variants.map((compiled) => compiled.limit).sort((a, b) => b.max - a.max)
      // A run is shorter than a day.
      if (limit === undefined || limit.calendar !== undefined) continue
      const [[peeked] = []] = truth.server.counters.sync.peek([[{ key, limit, amount: 0 }]])
      if (peeked === undefined || peeked.remaining === limit.capacity) continue
      // A clock that was set far back keeps counters for that much longer.
      if (truth.disruptions.some(({ kind }) => kind === 'store-jump')) continue
      return `${rule} has ${peeked.remaining} of ${limit.capacity} left`
    }
    for (const { key, limit, counter } of truth.blocks.all) {
      const [[peeked] = []] = truth.server.counters.sync.peek([[{ key, limit, amount: 0 }]])
      if (peeked?.remaining === limit.capacity || truth.hasFault('store-jump')) continue
      return `${counter.rule} is still blocked`
    }
    for (const { name, held, counters, reportsWaiting } of nodes) {
      if (held > 0) return `${name} holds ${held} units`
      if (counters > 0) return `${name} counts ${counters} callers`
      if (reportsWaiting > 0 && truth.isCalm) return `${name} has ${reportsWaiting} reports waiting`
    }
    return undefined
  },
})

/**
 * Over-admission of exact and leased rules, as callers see it: in every interval t what was
 * admitted is at most what the algorithm allows, and for leased rules n*q more, which together is
 * at most `maxStranded` of the limit. A call is decided a little after the store has taken for it,
 * so the interval may be longer by the time that an answer is under way.
 *
 * Checked where nothing goes wrong and the fleet stays the same. Under faults the parts of this
 * are checked instead: what the store grants, that nothing is spent twice, and when.
 */
import { type Counter, type Truth } from '../truth.js'
import type { MakeInvariant } from './invariant.js'
import { atOnce, Meter, perUs } from './meter.js'

export const admissions: MakeInvariant = (truth) => {
  const meters = new Map<string, Meter>()
  return {
    name: 'no more is admitted than the limit and its leases',
    onDecided: ({ spent, storeUs }) => {
      if (!truth.isSteady) return undefined
      for (const { wanted } of spent) {
        const { counter } = wanted.account
        const { coordination, rule } = counter.of
        if (coordination === 'local' || coordination === 'split') continue
        const meter = meters.get(counter.name) ?? meterFor(counter, truth)
        meters.set(counter.name, meter)
        const excess = meter.add(wanted.amount, storeUs)
        if (excess > 0) return `${excess.toFixed(3)} above the bound of ${rule} at ${storeUs}`
      }
      return undefined
    },
  }
}

function meterFor({ limit, of }: Counter, truth: Truth): Meter {
  const leases = of.coordination === 'leased' ? Math.floor(of.maxStranded * limit.capacity) : 0
  const underWay = perUs(limit) * truth.reachMs * 1000
  return new Meter(atOnce(limit) + leases + underWay, perUs(limit))
}

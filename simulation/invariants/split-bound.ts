/**
 * The parts of a split limit are together the limit: in every interval t all nodes admit at most
 * what the algorithm allows. A node that has not seen its place yet takes the first one's part,
 * which may be a unit more than its own. Where the fleet changes, nodes see that within seconds,
 * and nothing is checked.
 */
import type { MakeInvariant } from './invariant.js'
import { atOnce, Meter, perUs } from './meter.js'

export const splitBound: MakeInvariant = (truth) => {
  const meters = new Map<string, Meter>()
  const nodes = truth.scenario.nodes.length
  return {
    name: 'the parts of a split are the limit',
    onDecided: ({ spent, storeUs }) => {
      if (!truth.isSteady) return undefined
      for (const { wanted } of spent) {
        const { limit, name, of } = wanted.account.counter
        if (of.coordination !== 'split') continue
        const meter = meters.get(name) ?? new Meter(atOnce(limit) + nodes, perUs(limit))
        meters.set(name, meter)
        const excess = meter.add(wanted.amount, storeUs)
        if (excess > 0) return `${excess.toFixed(3)} above the limit of ${of.rule}`
      }
      return undefined
    },
    onDone: ({ request: { asked, node } }) => {
      if (asked.verb !== 'take') return undefined
      for (const { key } of asked.groups.flat()) {
        const account = truth.accountOf(node, key)
        if (account?.counter.of.coordination === 'split' && !account.counter.isShadow) {
          return `${node} asked the store for ${account.counter.of.rule}`
        }
      }
      return undefined
    },
  }
}

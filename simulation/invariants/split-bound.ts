/**
 * The parts of a split limit are together the limit: in every interval t all nodes admit at most
 * what the algorithm allows. A node that does not know its index yet takes the part of the first
 * one, which may be a unit more than its own; when it learns it, a bucket forgets a fraction of a
 * unit. Runs are not checked if the fleet changes, if a node knows only some of it when all start
 * together (which takes seconds to settle), or if a reset or a change of the rule starts a part
 * anew.
 */
import { isEver, hasOneLimit, nameOf } from '../sim-counter.js'
import type { MakeInvariant } from './invariant.js'
import { atOnce, Meter, perUs } from './meter.js'

export const splitBound: MakeInvariant = (truth) => {
  const meters = new Map<string, Meter>()
  const nodes = truth.scenario.nodes.length
  return {
    name: 'the parts of a split are the limit',
    onDecision: ({ spent, storeUs }) => {
      const sawAll = [...truth.fewestNodes.values()].every((size) => size >= nodes)
      if (!truth.isSteady || !sawAll) return undefined
      for (const { take } of spent) {
        const { counter } = take.account
        const { limit, coordination } = take.compiled
        if (coordination !== 'split' || !hasOneLimit(counter)) continue
        const { name, rule } = counter
        const meter = meters.get(name) ?? new Meter(atOnce(limit) + 2 * nodes, perUs(limit))
        meters.set(name, meter)
        const excess = meter.add(take.amount, storeUs)
        if (excess > 0) return `${excess.toFixed(3)} above the limit of ${rule}`
      }
      return undefined
    },
    onRefund: ({ key, amount }) => {
      meters.get(nameOf(key))?.take(amount)
      return undefined
    },
    onExecution: ({ request: { operation, node } }) => {
      if (operation.verb !== 'take') return undefined
      for (const { key } of operation.groups.flat()) {
        const counter = truth.accountOf(node, key)?.counter
        if (counter === undefined || counter.isShadow || counter.variants.length > 1) continue
        if (isEver(counter, 'split')) return `${node} asked the store for ${counter.rule}`
      }
      return undefined
    },
  }
}

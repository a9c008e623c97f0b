/**
 * No unit is spent twice, and never more is spent than was drawn. For every node and counter, at
 * every moment and under every fault: units admitted otherwise than by posture, and units that the
 * node has given back or tried to, are together at most the units that the store granted it. What a
 * limit in shadow charged to a call that it would have refused is given back if the call is
 * refused.
 *
 * Local counts and splits draw no units; other invariants bound them.
 */
import { isEver } from '../sim-counter.js'
import type { Account } from '../ground-truth.js'
import type { MakeInvariant } from './invariant.js'

export const spentOnce: MakeInvariant = (truth) => ({
  name: 'no unit is spent twice',
  onDecision: ({ call }) => {
    for (const { account } of call.takes.flat()) {
      const wrong = overspent(account)
      if (wrong !== undefined) return wrong
    }
    return undefined
  },
  onExecution: ({ request: { operation, node } }) => {
    const account =
      operation.verb === 'give' ? truth.accountOf(node, operation.give.key) : undefined
    return account === undefined ? undefined : overspent(account)
  },
})

function overspent(account: Account): string | undefined {
  const { node, counter, spent, refunded, givesTried, granted, overdrawn } = account
  if (isEver(counter, 'local') || isEver(counter, 'split')) return undefined
  // A refund returns spent units, perhaps of another node.
  if (spent - refunded + givesTried <= granted + (counter.isShadow ? overdrawn : 0))
    return undefined
  return `${node} spent ${spent} and gave back ${givesTried} (${refunded} by receipts) of ${granted} granted (${counter.rule})`
}

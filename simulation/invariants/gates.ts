/**
 * A gate charges nothing, and the store refuses it exactly where not one whole unit is left.
 */
import { algorithmOf, isBlock, type Limit, type Take, withoutWaiting } from '@sluice/core'
import type { GroundTruth } from '../ground-truth.js'
import { nameOf } from '../sim-counter.js'
import type { MakeInvariant } from './invariant.js'

export const gates: MakeInvariant = (truth) => ({
  name: 'a gate charges nothing and stands where nothing is left',
  onExecution: ({ request: { operation, node }, reply }) => {
    if (operation.verb !== 'take' || reply.late) return undefined
    for (const [g, takes] of operation.groups.entries()) {
      for (const [i, take] of takes.entries()) {
        const answer = reply.answers?.[g]?.[i]
        const counter = truth.counters.get(nameOf(take.key))
        if (take.gate !== true || isBlock(take.limit) || typeof answer !== 'object') continue
        if (counter === undefined) continue
        if (answer.granted !== 0) return `a gate on ${node} was charged by ${counter.rule}`
        if ((answer.retryAfterMs === 0) === hasOneLeft(take, truth)) continue
        return `a gate on ${node} was ${answer.retryAfterMs === 0 ? 'open' : 'shut'} by ${counter.rule}`
      }
    }
    return undefined
  },
  onDecision: ({ call, spent }) => {
    const isCharged = spent.some(({ take }) => take.isGate && take.amount > 0)
    return isCharged ? `gate ${call.id} has a cost` : undefined
  },
})

/** Nothing was charged, so what is left is what was left then. */
function hasOneLeft({ key, limit }: Take, { server }: GroundTruth): boolean {
  const [[peeked] = []] = server.counters.sync.peek([[{ key, limit: atOnce(limit), amount: 1 }]])
  return peeked?.retryAfterMs === 0
}

/** A bucket that lends to calls that wait has nothing left. */
function atOnce(limit: Limit): Limit {
  return algorithmOf(limit).family === 'bucket' ? withoutWaiting(limit) : limit
}

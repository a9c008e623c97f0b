/**
 * A receipt lists what was taken: its cost for every limit that admitted the call, and nothing for
 * limits decided by posture. If a rule has two limits, the store may have decided only one before
 * it stopped answering. Without faults a receipt is complete.
 */
import { readReceipt, sipKey } from '@sluice/core'
import { SECRET } from '../rule-timeline.js'

import { nameOf } from '../sim-counter.js'
import type { MakeInvariant } from './invariant.js'

export const receipts: MakeInvariant = (truth) => ({
  name: 'a receipt says what was taken',
  onDecision: ({ call, decision, spent }) => {
    if (decision.receipt === undefined) return undefined
    const taken = readReceipt(decision.receipt, sipKey(SECRET))
    const left = new Map(taken.map(({ key, amount }) => [nameOf(key), amount]))
    for (const { take, byPosture } of spent) {
      const { counter } = take.account
      const amount = left.get(counter.name) ?? 0
      left.delete(counter.name)
      const isAlone = call.takes.flat().every((other) => {
        return other === take || other.compiled.rule !== take.compiled.rule
      })
      if (amount === take.amount && !(byPosture && isAlone)) continue
      if (amount === 0 && (byPosture || !truth.isCalm)) continue
      return `of call ${call.id}: ${amount} of ${counter.rule} where ${take.amount} were spent`
    }
    // A limit in shadow that overdraws is charged although it would have refused.
    for (const take of call.takes.flat()) {
      const isOwed = take.shadow !== undefined && take.compiled.limit.onRefusal === 'overdraw'
      if (isOwed) left.delete(take.account.counter.name)
    }
    return left.size === 0 ? undefined : `of call ${call.id}: what was not spent`
  },
})

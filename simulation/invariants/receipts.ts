/**
 * A receipt says what was taken: for every limit that the call was admitted by, its cost, and
 * nothing for what a posture let pass; but of a rule with two limits one may have been decided
 * before the store fell silent. Where nothing goes wrong it leaves nothing out.
 */
import { readReceipt, sipKey } from '@sluice/core'
import { SECRET } from '../rule-book.js'

import { nameOf } from '../counter.js'
import type { MakeInvariant } from './invariant.js'

export const receipts: MakeInvariant = (truth) => ({
  name: 'a receipt says what was taken',
  onDecided: ({ called, decision, spent }) => {
    if (decision.receipt === undefined) return undefined
    const taken = readReceipt(decision.receipt, sipKey(SECRET))
    const left = new Map(taken.map(({ key, amount }) => [nameOf(key), amount]))
    for (const { wanted, byPosture } of spent) {
      const { counter } = wanted.account
      const amount = left.get(counter.name) ?? 0
      left.delete(counter.name)
      const isAlone = called.takes.flat().every((other) => {
        return other === wanted || other.of.rule !== wanted.of.rule
      })
      if (amount === wanted.amount && !(byPosture && isAlone)) continue
      if (amount === 0 && (byPosture || !truth.isCalm)) continue
      return `of call ${called.id}: ${amount} of ${counter.rule} where ${wanted.amount} were spent`
    }
    return left.size === 0 ? undefined : `of call ${called.id}: what was not spent`
  },
})

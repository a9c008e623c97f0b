/**
 * What the store was charged and what was admitted are the same in the end.
 *
 * For every live node and counter, when everything is over: units granted by the store that the
 * node heard of, less those it gave back, plus those it charged afterwards, are never more than the
 * units it admitted. So nothing that was granted is lost (a lease that ends is given back, and a
 * refused call pays nothing), and nothing is charged twice. Where nothing goes wrong they are the
 * same. A charge of which the node does not know whether it was done is neither repeated nor given
 * back. A lease of a bucket that is full again is not given back: its units are there already.
 *
 * Of a node that was killed at most q units of a lease stay taken, and what its last calls waited
 * for: buckets refill, windows regain them at their end.
 */
import type { Account, Truth } from '../truth.js'
import type { MakeInvariant } from './invariant.js'

export const books: MakeInvariant = (truth) => ({
  name: 'what is charged is what was admitted',
  atEnd: () => {
    for (const account of truth.accounts.values()) {
      const wrong = imbalance(account, truth)
      if (wrong !== undefined) return wrong
    }
    return undefined
  },
})

function imbalance(account: Account, truth: Truth): string | undefined {
  const { node, counter, granted, unheard, givesTried, charged, spent, byPosture } = account
  const { coordination, rule } = counter.of
  const taken = granted - unheard - givesTried + charged
  const admitted = spent + byPosture
  const regained = coordination === 'leased' ? account.regained : 0
  const lost = account.doubtful + regained + (truth.dead.has(node) ? lostWith(account, truth) : 0)
  const told = `${node} ${rule}: ${granted} granted, ${unheard} unheard, ${givesTried} given back, ${charged} charged; ${spent} spent, ${byPosture} by posture`
  if (taken > admitted + lost) return `${taken - admitted - lost} units lost: ${told}`
  if (!truth.isCalm || coordination === 'split') return undefined
  return taken < admitted ? `${admitted - taken} units not charged: ${told}` : undefined
}

function lostWith({ node, counter }: Account, truth: Truth): number {
  const { of, limit } = counter
  const nodes = truth.fewest.get(node) ?? 1
  const lease =
    of.coordination === 'leased' ? Math.floor((of.maxStranded * limit.capacity) / nodes) : 0
  return lease + truth.pending(node, counter)
}

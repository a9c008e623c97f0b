/**
 * Charges to the store and admissions are equal in the end.
 *
 * For every live node and counter, at the end of a run: units granted by the store whose answer the
 * node received, less those it gave back, plus those it charged afterwards, are never more than the
 * units it admitted. So nothing that was granted is lost (a lease that ends is given back, and a
 * refused call pays nothing), and nothing is charged twice. Without faults both are equal. A charge
 * with an unknown result is neither repeated nor given back. A give that certainly did not run may
 * be lost. A lease of a bucket that is full again is not given back: its units have refilled.
 *
 * Units of a reservation that its node had refused, and whose mark may still be there, are not
 * given back: whoever repeats it gets them. What the end of a reservation changes is checked
 * elsewhere.
 *
 * Units that a limit charges to refused calls are left out, and what was taken from it for a call
 * that a posture refused stays taken.
 *
 * Units that a receipt returned do not count as admitted. Units that a node held of a counter that
 * was reset are neither spent nor given back, so such counters are left out.
 *
 * A killed node leaves at most q units of a lease taken, plus those that its last calls waited for:
 * buckets refill, and windows end. It cannot give back what it had reported of calls that were
 * refused later; nor does a node whose store's clock stepped, which assumes that they refilled.
 * Local counts of such nodes are left out.
 */
import { isEver, maxHeld, mostOf } from '../sim-counter.js'
import { type Account, type GroundTruth, machineOf } from '../ground-truth.js'
import type { MakeInvariant } from './invariant.js'

export const chargeAccounting: MakeInvariant = (truth) => ({
  name: 'what is charged is what was admitted',
  atEnd: () => {
    for (const account of truth.accounts.values()) {
      const wrong = imbalance(account, truth)
      if (wrong !== undefined) return wrong
    }
    return undefined
  },
})

function imbalance(account: Account, truth: GroundTruth): string | undefined {
  const { node, counter, granted, unacknowledged, givesTried, charged, spent, byPosture } = account
  if (counter.resetsUs.length > 0) return undefined
  const isLate = truth.killedNodes.has(node) || truth.disruptions.length > 0
  if (isLate && isEver(counter, 'local')) return undefined
  const taken = granted - unacknowledged - givesTried + charged
  const admitted = spent - account.refunded + byPosture
  const regained = isEver(counter, 'leased') ? account.regained : 0
  const dead = truth.killedNodes.has(node) ? lostWithNode(account, truth) : 0
  // Units that a bucket has refilled are not returned where it is counted locally.
  const unreturned = isEver(counter, 'local') ? account.refunded : 0
  const marked = truth.reservations.markedUnits(node, counter.name)
  const missed = account.givesFailed + returnedTooLate(account, truth) + unreturned + marked
  const kept = truth.isCalm ? 0 : account.refused
  const lost = account.doubtful + regained + dead + missed + kept
  const summary = `${node} ${counter.rule}: ${granted} granted, ${unacknowledged} unheard, ${givesTried} given back, ${charged} charged; ${spent} spent, ${byPosture} by posture, ${account.refunded} refunded`
  if (taken > admitted + lost) return `${taken - admitted - lost} units lost: ${summary}`
  if (!truth.isCalm || isEver(counter, 'split')) return undefined
  return taken < admitted ? `${admitted - taken} units not charged: ${summary}` : undefined
}

/**
 * While the store does not answer, the units of a node wait to be given back. Once their window is
 * over by either clock they cannot be; then they count in the next one.
 */
function returnedTooLate({ node, counter, refunded }: Account, truth: GroundTruth): number {
  const { faults, settings } = truth.scenario
  const lease = maxHeld(counter, [truth.fewestNodes.get(node) ?? 1])
  const jumps = faults.filter(
    (fault) => fault.kind === 'wall-jump' && fault.node === machineOf(node),
  ).length
  if (!truth.mayBeSilent) return jumps * lease
  const windowMs = mostOf(counter, (limit) => limit.windowMs)
  return (jumps + Math.ceil(settings.lengthMs / windowMs) + 1) * lease + refunded
}

function lostWithNode({ node, counter }: Account, truth: GroundTruth): number {
  return maxHeld(counter, [truth.fewestNodes.get(node) ?? 1]) + truth.pendingUnits(node, counter)
}

/**
 * Admissions by posture have their own bound. `closed` admits nothing. `local` admits, on each node
 * and in every interval t, at most twice its share of the limit and that share per window: the
 * share is ceil(factor * limit / n), at least 1, with n the smallest fleet that it ever knew.
 * Units that the store turns out to have taken itself return to the share. A node that slept, or
 * whose store changed its clock, can begin a window anew, and so does a reset. So can one that got
 * an answer only after a long silence, and knows the time no better than that; a counter of
 * several limits has several shares.
 */
import type { TakeRecord } from '../call-log.js'
import { hasOneLimit } from '../sim-counter.js'
import { type GroundTruth } from '../ground-truth.js'
import type { MakeInvariant } from './invariant.js'
import { Meter } from './meter.js'

/** A node that knows the store's time worse than this may place units into another window. */
const CLOCK_US = 50_000

export const postureShare: MakeInvariant = (truth) => {
  const meters = new Map<string, Meter>()
  return {
    name: 'a posture admits no more than its share',
    onDecision: ({ call, decision, spent, trueUs, uncertaintyUs }) => {
      for (const { take, byPosture } of spent) {
        const { rule } = take.compiled
        const posture = decision.postures?.[rule]
        if (!byPosture || posture === undefined || take.amount === 0) continue
        if (posture === 'closed') return `closed rule ${rule} admitted call ${call.id}`
        if (posture === 'open' || isUnknowable(truth, call.node)) continue
        const { account } = take
        if (!hasOneLimit(account.counter)) continue
        // Fewer nodes have larger shares, which start again.
        const id = `${call.node} ${account.counter.name} ${truth.fewestNodes.get(call.node)}`
        if (Number.isFinite(uncertaintyUs) && uncertaintyUs > CLOCK_US) {
          meters.delete(id)
          continue
        }
        const meter = meters.get(id) ?? meterFor(take, truth)
        meters.set(id, meter)
        const { granted, unacknowledged, givesTried } = account
        // Usage of local counts was not granted.
        const isLocal = take.compiled.coordination === 'local'
        const spentOfIt = isLocal ? 0 : account.spent - account.refunded
        const struck = Math.max(0, granted - unacknowledged - spentOfIt - givesTried)
        const excess = meter.add(take.amount, trueUs)
        if (excess > struck) return `${call.node} admitted ${excess} above its share of ${rule}`
      }
      return undefined
    },
  }
}

function meterFor({ account, compiled }: TakeRecord, truth: GroundTruth): Meter {
  const { limit, posture } = compiled
  const factor = typeof posture === 'object' ? posture.local : 1
  const nodes = truth.fewestNodes.get(account.node) ?? 1
  const share = (units: number) => Math.max(1, Math.ceil((factor * units) / nodes))
  const most = share(Math.max(limit.capacity, limit.max))
  const queue = limit.algorithm === 'leaky-bucket' ? 1 : 0
  return new Meter(2 * most + queue, share(limit.max) / limit.windowUs)
}

function isUnknowable(truth: GroundTruth, node: string): boolean {
  return truth.disruptions.length > 0 || truth.wasSuspended(node)
}

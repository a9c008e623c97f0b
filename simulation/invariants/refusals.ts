/**
 * No false refusal beyond the documented ones.
 *
 * A refusal made without the store is compared with the store at that moment. If the store had
 * capacity, the refusal is false, except in these documented cases:
 * - another node gave something back to the counter within the time that a refusal is remembered
 *   (1 s; for leases at most as long as they last, for local counts until the next read), of which
 *   this one cannot know;
 * - leases: `maxStranded` of the limit may be held elsewhere, so an exhausted counter
 *   refuses until that much fits again;
 * - local counts: unreported usage of this node counts too; another limit does not reduce the debt,
 *   so counters with several limits are left out;
 * - the store's clock or counters changed by themselves in the last seconds, or the node slept and
 *   its clock is behind until the next answer of the store.
 * Refusals by a split limit or by a posture are not checked, and those by a block in `blocks.ts`.
 */
import { algorithmOf, type Limit, windowNumberOf } from '@sluice/core'
import type { CallRecord, DecisionRecord, TakeRecord } from '../call-log.js'
import { type Counter, isCallerWindow, isSameLimit } from '../sim-counter.js'
import type { GroundTruth } from '../ground-truth.js'
import type { MakeInvariant } from './invariant.js'

/** How far a node's estimate of the present may be off. */
const CLOCK_US = 3000
const DISRUPTION_US = 6_000_000

export const refusals: MakeInvariant = (truth) => ({
  name: 'no call is refused that has room',
  onDecision: (record) => {
    const { decision, call, trueUs } = record
    const { reason } = decision
    if (decision.allowed || reason === 'cost_exceeds_limit' || reason === 'blocked')
      return undefined
    if (truth.isDisrupted(trueUs, DISRUPTION_US) || truth.wasSuspended(call.node)) return undefined
    const [group = []] = call.takes
    if (decision.source === 'deny-cache') return deniedWrongly(group, record, truth)
    if (decision.source !== 'lease' && decision.source !== 'local') return undefined
    const refusing = group.filter(({ compiled: { coordination, limit, rule } }) => {
      const isThis = rule === decision.rule && limit.name === decision.limitName
      return isThis && (coordination === 'leased' || coordination === 'local')
    })
    for (const take of refusing) {
      const wrong = refusedWrongly(take, call, trueUs, truth)
      if (wrong !== undefined) return wrong
    }
    return undefined
  },
})

function deniedWrongly(
  group: readonly TakeRecord[],
  { call, trueUs }: DecisionRecord,
  truth: GroundTruth,
): string | undefined {
  const { denyCacheMs } = truth.scenario.settings
  const withinUs = (denyCacheMs + truth.reachMs) * 1000 + CLOCK_US
  for (const take of group) {
    const { account, compiled } = take
    const { counter } = account
    if (compiled.coordination === 'split') return undefined
    if (truth.wasReturnedWithin(counter, call, trueUs, withinUs)) return undefined
    const needed = unitsOf(take)
    if (!hasRoom(truth, counter, compiled.limit, needed, trueUs - call.startedUs)) return undefined
  }
  return `call ${call.id} on ${call.node} was refused from memory, and the store has room`
}

function refusedWrongly(
  take: TakeRecord,
  call: CallRecord,
  trueUs: number,
  truth: GroundTruth,
): string | undefined {
  const { account, compiled } = take
  const { counter } = account
  const { limit } = compiled
  const lengthUs = Math.min(limit.windowUs / 4, 1_000_000) + truth.reachMs * 1000
  let needed = unitsOf(take)
  if (compiled.coordination === 'leased') {
    if (truth.wasReturnedWithin(counter, call, trueUs, lengthUs)) return undefined
    needed = Math.max(needed, Math.floor(compiled.maxStranded * limit.capacity))
  } else {
    const syncUs = (compiled.syncEveryMs + 2 * truth.reachMs) * 1000
    // If it waited, others may have put back since what it was refused for.
    const hasWaited = trueUs > call.startedUs
    if (!truth.isCalm || counter.variants.length > 1 || hasWaited) return undefined
    if (truth.wasReturnedWithin(counter, call, trueUs, syncUs)) return undefined
    const { spent, granted, givesTried, charged } = account
    const unreported = Math.max(0, spent - (granted - givesTried + charged))
    needed += unreported + truth.pendingUnits(call.node, counter)
  }
  if (needed > limit.capacity || !hasRoom(truth, counter, limit, needed, trueUs - call.startedUs))
    return undefined
  return `call ${call.id} on ${call.node} was refused by ${compiled.rule}, and the store has room for ${needed}`
}

/** The units for which there must be room: a gate takes none and needs one. */
function unitsOf({ amount, isGate }: TakeRecord): number {
  return isGate ? 1 : amount
}

/** Whether the store had capacity when the call arrived, because nodes know its clock no better. */
function hasRoom(
  truth: GroundTruth,
  { key, name }: Counter,
  callLimit: Limit,
  amount: number,
  waitedUs: number,
): boolean {
  const { server } = truth
  const owing = truth.lastChargedLimit.get(name)
  const limit = owing !== undefined && isSameLimit(owing, callLimit) ? owing : callLimit
  const [[peeked] = []] = server.counters.sync.peek([[{ key, limit, amount: 0 }]])
  const before = server.nowUs() - CLOCK_US - waitedUs
  // Nothing is known any more about a window that has ended since.
  const { start = 0 } = (peeked?.state ?? {}) as { readonly start?: number }
  if (isCallerWindow(limit)) {
    if (before < start) return false
  } else if (windowNumberOf(limit, before) !== windowNumberOf(limit, server.nowUs())) return false
  return algorithmOf(limit).peek(peeked?.state, limit, amount, before).retryAfterMs === 0
}

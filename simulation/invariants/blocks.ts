/**
 * Callers are blocked exactly as long as they should be.
 *
 * - A blocked caller is admitted by no call that arrives after its block began and is decided
 *   before it ends, except by posture. A shadow rule without the store reports nothing, so shadow
 *   rules are checked only in runs without faults.
 * - The store refuses by a block until its end by the store's clock, to the millisecond, and a
 *   block grows and is forgotten as `sim-block.ts` computes it.
 * - A block begins only with a call that its limit refuses; a call that the limit would admit never
 *   meets a block that has not begun, ended or was lifted. A node that has not reset the caller
 *   itself may remember a block for as long as its deny cache keeps refusals.
 * - A reset of the caller that succeeds lifts the blocks that had begun before it.
 *
 * After a failover or a step of the store's clock a block continues from what the store holds.
 */
import type { BlockMeeting } from '../block-truth.js'
import type { DecisionRecord, TakeRecord } from '../call-log.js'
import type { GroundTruth } from '../ground-truth.js'
import { isBlockedAt, lastRefusedUs, type SimBlock } from '../sim-block.js'
import type { MakeInvariant } from './invariant.js'

/** How far a node's estimate of the present may be off. */
const CLOCK_US = 3000
const DISRUPTION_US = 6_000_000

export const blocks: MakeInvariant = (truth) => ({
  name: 'callers are blocked as long as they should be',
  onExecution: ({ storeUs }) => {
    for (const meeting of truth.blocks.meetings) {
      const wrong = answeredWrongly(meeting, storeUs) ?? begunWrongly(meeting, truth)
      if (wrong !== undefined) return wrong
    }
    return undefined
  },
  onDecision: (record) => {
    const { decision, spent } = record
    for (const { take, byPosture } of spent) {
      if (byPosture || (take.shadow !== undefined && !truth.isCalm)) continue
      const wrong = admittedWrongly(take, record)
      if (wrong !== undefined) return wrong
    }
    return decision.reason === 'blocked' ? refusedWrongly(record, truth) : undefined
  },
  onCallerReset: ({ node, blocks: lifted, startedUs }) => {
    for (const block of lifted) {
      const isKept = block.sinceUs < startedUs && isBlockedAt(block, truth.server.nowUs())
      if (isKept && !block.isUnsure) return `a reset on ${node} left ${block.counter.rule} blocked`
    }
    return undefined
  },
})

function answeredWrongly(
  { block, isRefusable, retryAfterMs }: BlockMeeting,
  storeUs: number,
): string | undefined {
  const isRefusing = isRefusable && isBlockedAt(block, storeUs)
  const expectedMs = isRefusing ? Math.ceil((block.until - storeUs) / 1000) : 0
  if (retryAfterMs === expectedMs) return undefined
  return `${block.counter.rule} is blocked for ${expectedMs} ms, and the store answers ${retryAfterMs}`
}

/** A refused group is charged nothing, so the limit that began the block still refuses. */
function begunWrongly(
  { block, limitTake, begins }: BlockMeeting,
  { server }: GroundTruth,
): string | undefined {
  if (!begins) return undefined
  const [[peeked] = []] = server.counters.sync.peek([[limitTake]])
  if ((peeked?.retryAfterMs ?? 0) > 0) return undefined
  return `a caller of ${block.counter.rule} was blocked below its limit`
}

function admittedWrongly(
  { block, amount, isGate }: TakeRecord,
  { call, storeUs }: DecisionRecord,
): string | undefined {
  if (block === undefined || block.isUnsure || (amount === 0 && !isGate)) return undefined
  if (block.sinceUs >= call.startedUs || !isBlockedAt(block, storeUs)) return undefined
  return `call ${call.id} on ${call.node} was admitted by ${block.counter.rule}, which blocks it`
}

function refusedWrongly(
  { call, decision, trueUs, storeUs }: DecisionRecord,
  truth: GroundTruth,
): string | undefined {
  if (truth.isDisrupted(trueUs, DISRUPTION_US) || truth.wasSuspended(call.node)) return undefined
  const [group = []] = call.takes
  const refusing = group.flatMap(({ block, compiled: { rule, limit } }) => {
    const isThis = rule === decision.rule && limit.name === decision.limitName
    return isThis && block !== undefined ? block : []
  })
  const isRight = (block: SimBlock) => {
    if (lastRefusedUs(block, trueUs, storeUs) >= call.startedUs - CLOCK_US) return true
    const { denyCacheMs } = truth.scenario.settings
    const rememberedUs = (denyCacheMs + truth.reachMs) * 1000 + CLOCK_US
    return (
      decision.source === 'deny-cache' && truth.wasReturnedWithin(block, call, trueUs, rememberedUs)
    )
  }
  if (refusing.some(isRight)) return undefined
  return `call ${call.id} on ${call.node} was refused by a block of ${decision.rule} that is over`
}

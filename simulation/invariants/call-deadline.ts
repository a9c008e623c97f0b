/**
 * Every call is decided within its deadline plus 25 ms of true time, under every fault. Time in
 * which its node is paused or asleep does not count, and a dead node never answers.
 */
import type { CallRecord } from '../call-log.js'
import { type GroundTruth, machineOf } from '../ground-truth.js'
import type { MakeInvariant } from './invariant.js'

const CAP_MS = 25
const DRIFT = 1 / 1000

export const callDeadline: MakeInvariant = (truth) => {
  const mostUs = (truth.scenario.settings.deadlineMs + CAP_MS) * 1000 * (1 + DRIFT)
  return {
    name: 'every call is decided in time',
    onDecision: ({ call, trueUs }) => {
      const tookUs = trueUs - call.startedUs - stoppedUs(call, trueUs, truth)
      if (tookUs <= mostUs) return undefined
      return `call ${call.id} on ${call.node} took ${tookUs / 1000} ms`
    },
    atEnd: () => {
      for (const call of truth.pendingCalls.values()) {
        if (!truth.killedNodes.has(call.node)) return `call ${call.id} on ${call.node} still waits`
      }
      return undefined
    },
  }
}

/** How long its node was paused meanwhile; overlapping pauses are added up. */
function stoppedUs(
  { node, startedUs }: CallRecord,
  nowUs: number,
  { scenario }: GroundTruth,
): number {
  let sum = 0
  for (const fault of scenario.faults) {
    if ((fault.kind !== 'pause' && fault.kind !== 'suspend') || fault.node !== machineOf(node))
      continue
    const fromUs = scenario.settings.startUs + fault.atMs * 1000
    const toUs = fromUs + fault.forMs * 1000
    sum += Math.max(0, Math.min(nowUs, toUs) - Math.max(startedUs, fromUs))
  }
  return sum
}

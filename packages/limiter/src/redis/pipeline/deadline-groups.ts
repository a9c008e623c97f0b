/**
 * Which calls may share a script. All that is in one stops counting at one time, that of the first
 * deadline in it, so a call that may wait for long must not be with one that is nearly out of time:
 * it would be told that it is too late again and again.
 */
import type { PartitionOp } from '../request/partition-op.js'

/** So many times the time that is left to the first may be left to the last of one script. */
const SPREAD = 4
/** What has less time left than this is out of time, and alone with its like. */
const LEAST_MS = 0.25

export function groupByDeadline(
  ops: readonly PartitionOp[],
  nowMs: number,
): readonly (readonly PartitionOp[])[] {
  let first = Infinity
  let last = -Infinity
  for (let i = 0; i < ops.length; i++) {
    const deadlineAtMs = ops[i]?.owner.deadlineAtMs ?? nowMs
    if (deadlineAtMs < first) first = deadlineAtMs
    if (deadlineAtMs > last) last = deadlineAtMs
  }
  if (last <= latestTogether(first, nowMs)) return [ops]
  const groups: PartitionOp[][] = []
  let until = -Infinity
  for (const op of ops.toSorted((a, b) => a.owner.deadlineAtMs - b.owner.deadlineAtMs)) {
    const { deadlineAtMs } = op.owner
    if (deadlineAtMs > until) {
      groups.push([])
      until = latestTogether(deadlineAtMs, nowMs)
    }
    groups.at(-1)?.push(op)
  }
  return groups
}

/** The last deadline that may be with this one. */
function latestTogether(deadlineAtMs: number, nowMs: number): number {
  return nowMs + SPREAD * Math.max(LEAST_MS, deadlineAtMs - nowMs)
}

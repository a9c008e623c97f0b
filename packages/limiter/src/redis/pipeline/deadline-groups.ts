/**
 * Groups calls that may share a script. A script runs only until the earliest deadline among its
 * calls, so a call with much time left must not be grouped with one that is nearly out of time: it
 * would be answered `late` again and again.
 */
import type { PartitionOp } from '../request/partition-op.js'

/** In one script, the most time left may be this many times the least time left. */
const SPREAD = 4
/** Calls with less time left than this are practically out of time and get their own group. */
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

/** The latest deadline that may share a script with this one. */
function latestTogether(deadlineAtMs: number, nowMs: number): number {
  return nowMs + SPREAD * Math.max(LEAST_MS, deadlineAtMs - nowMs)
}

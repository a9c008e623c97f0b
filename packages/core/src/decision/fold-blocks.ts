/**
 * Folds the outcomes of blocks into those of their limits: callers, headers and statistics see one
 * limit that refuses until the block ends.
 */
import type { Outcome } from '../algorithms/algorithm.js'
import { isBlock } from '../algorithms/block.js'
import type { PlannedTake } from './plan.js'

/** An outcome, and whether a block determined it. */
export interface FoldedOutcome extends Outcome {
  readonly isBlocked?: boolean
}

export interface FoldedGroup {
  readonly takes: readonly PlannedTake[]
  readonly outcomes: readonly FoldedOutcome[]
}

export function foldBlocks(
  takes: readonly PlannedTake[],
  outcomes: readonly Outcome[],
): FoldedGroup {
  for (let i = 0; i < takes.length; i++) {
    const take = takes[i]
    if (take !== undefined && isBlock(take.limit)) return fold(takes, outcomes)
  }
  return { takes, outcomes }
}

function fold(takes: readonly PlannedTake[], outcomes: readonly Outcome[]): FoldedGroup {
  const kept: PlannedTake[] = []
  const folded: FoldedOutcome[] = []
  takes.forEach((take, i) => {
    const outcome = outcomes[i]
    if (outcome === undefined) return
    if (!isBlock(take.limit)) {
      kept.push(take)
      folded.push(outcome)
      return
    }
    if (outcome.retryAfterMs === 0) return
    // A remembered refusal lists only what refuses: the block may come without its limit.
    const isBeside = kept.at(-1)?.compiled === take.compiled
    const before = isBeside ? folded.pop() : undefined
    if (!isBeside) kept.push(limitTake(take))
    folded.push(withBlock(before ?? outcome, outcome))
  })
  return { takes: kept, outcomes: folded }
}

/** The take of the limit that a block is beside. */
function limitTake(take: PlannedTake): PlannedTake {
  const { key, amount, compiled } = take
  return { key, amount, compiled, limit: compiled.limit }
}

/** The outcome of a limit whose block refuses. */
export function withBlock<Own extends Outcome>(own: Own, block: Outcome): Own & FoldedOutcome {
  const { retryAfterMs } = own
  // A cost that never fits is refused for that, and a wait longer than the block is the limit's.
  const isBlocked = retryAfterMs !== null && (block.retryAfterMs ?? 0) >= retryAfterMs
  return {
    ...own,
    remaining: 0,
    resetAfterMs: Math.max(own.resetAfterMs, block.resetAfterMs),
    retryAfterMs: isBlocked ? block.retryAfterMs : retryAfterMs,
    delayMs: 0,
    isBlocked,
  }
}

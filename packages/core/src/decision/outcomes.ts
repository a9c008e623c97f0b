/** Combines several outcomes of a call. */
import type { Outcome } from '../algorithms/algorithm.js'
import type { PlannedTake } from './plan.js'

/** Whether every limit of a group had room. */
export function passes(outcomes: readonly Outcome[]): boolean {
  for (let i = 0; i < outcomes.length; i++) if (outcomes[i]?.retryAfterMs !== 0) return false
  return true
}

export function longestDelay(outcomes: readonly Outcome[]): number {
  let longest = 0
  for (let i = 0; i < outcomes.length; i++) {
    const delayMs = outcomes[i]?.delayMs ?? 0
    if (delayMs > longest) longest = delayMs
  }
  return longest
}

/**
 * Returns the index of the refusal with the longest wait; one that never ends ranks first. Limits
 * that shed calls come last: a call that is over a limit of its caller is refused for that.
 */
export function bindingRefusal(
  takes: readonly PlannedTake[],
  outcomes: readonly Outcome[],
): number {
  const longest = longestWait(outcomes)
  const isOwn = takes[longest]?.compiled.sheds !== true
  if (isOwn || outcomes[longest]?.retryAfterMs === null) return longest
  const own = outcomes.map((outcome, i) =>
    takes[i]?.compiled.sheds === true ? { ...outcome, retryAfterMs: 0 } : outcome,
  )
  const binding = longestWait(own)
  return own[binding]?.retryAfterMs === 0 ? longest : binding
}

/** Returns the index of the refusal with the longest wait; one that never ends ranks first. */
export function longestWait(outcomes: readonly Outcome[]): number {
  let binding = 0
  let longest = 0
  for (let i = 0; i < outcomes.length; i++) {
    const wait = outcomes[i]?.retryAfterMs ?? Infinity
    if (wait <= longest) continue
    longest = wait
    binding = i
  }
  return binding
}

/**
 * Returns the index of the smallest share left; the first of equal ones. Limits that shed calls are
 * left out: how busy a service is, is no limit of its caller.
 */
export function tightest(takes: readonly PlannedTake[], outcomes: readonly Outcome[]): number {
  let binding = 0
  let smallest = Infinity
  for (let i = 0; i < outcomes.length && outcomes.length > 1; i++) {
    const share = shareLeft(takes[i], outcomes[i])
    if (share >= smallest || takes[i]?.compiled.sheds === true) continue
    smallest = share
    binding = i
  }
  return binding
}

export function shareLeft(take: PlannedTake | undefined, outcome: Outcome | undefined): number {
  const capacity = take?.limit.capacity ?? 0
  return capacity === 0 ? 0 : (outcome?.remaining ?? 0) / capacity
}

/**
 * A counter that could not grant a whole draw. Calls that no lease can serve are refused on this
 * node until another draw is worth the trip: otherwise a counter at its limit would cause a draw
 * for every unit that it regains.
 */
import { algorithmOf, type PlannedTake } from '@sluice/core'
import type { Answer } from '../../store.js'
import type { NodeOutcome } from '../node-decider.js'
import type { Draw } from './lease-draw.js'

export interface Exhaustion {
  readonly untilMs: number
  /** A draw is worth the trip once this many units are available. */
  readonly worth: number
  /** The state of the store, and its time. */
  readonly state: unknown
  readonly at: number
  readonly sentMs: number
  /** The upper bound of `retryAfterMs`: short if other calls only hold the units. */
  readonly waitMsMax: number
}

/** The upper bound of an exhaustion: other nodes may return units. */
const EXHAUSTED_MS_MAX = 1000

export function exhaustionOf(
  { take, counter, sentMs }: Draw,
  { state, at, held, retryAfterMs: storeWaitMs }: Exclude<Answer, string>,
): Exhaustion {
  const { limit } = take
  const worth = Math.max(1, Math.floor(counter.compiled.maxStranded * limit.capacity))
  const { retryAfterMs } = algorithmOf(limit).peek(state, limit, worth, at)
  const waitMs = Math.min(retryAfterMs ?? 0, counter.leaseMs, EXHAUSTED_MS_MAX)
  const waitMsMax = held === true && storeWaitMs !== null ? Math.max(1, storeWaitMs) : Infinity
  return { untilMs: sentMs + waitMs, worth, state, at, sentMs, waitMsMax }
}

/**
 * Refuses a take by the last known state, at a time estimated from the sending, so never behind the
 * store's. Undefined if that state has room, because only a larger call was refused; and for a
 * limit with a queue, where only the store knows the wait.
 */
export function refuseExhausted(
  { limit, amount }: PlannedTake,
  { untilMs, worth, state, at, sentMs, waitMsMax }: Exhaustion,
  nowMs: number,
): NodeOutcome | undefined {
  if (limit.maxWaitUs > 0) return undefined
  const staleMs = nowMs - sentMs
  const outcome = algorithmOf(limit).peek(state, limit, amount, at + Math.floor(staleMs * 1000))
  const hasRoom = outcome.retryAfterMs === 0 && (outcome.remaining >= worth || nowMs >= untilMs)
  if (hasRoom) return undefined
  const waitMs = Math.max(1, outcome.retryAfterMs ?? 0, Math.ceil(untilMs - nowMs))
  return {
    granted: 0,
    remaining: Math.min(outcome.remaining, amount - 1),
    resetAfterMs: outcome.resetAfterMs,
    retryAfterMs: Math.min(waitMs, waitMsMax),
    delayMs: 0,
    at: outcome.at,
    staleMs,
  }
}

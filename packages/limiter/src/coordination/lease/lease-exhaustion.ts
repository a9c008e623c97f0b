/**
 * A counter that could not give all that was asked. Calls that no lease can serve are refused here
 * until a draw is worth its trip again: at its limit a counter would else be asked once for every
 * unit that it regains.
 */
import { algorithmOf, type PlannedTake } from '@sluice/core'
import type { Answer } from '../../store.js'
import type { NodeOutcome } from '../node-decider.js'
import type { Draw } from './lease-draw.js'

export interface Exhaustion {
  readonly untilMs: number
  /** A draw is worth its trip when so many units are there. */
  readonly worth: number
  /** What the store told, and when. */
  readonly state: unknown
  readonly at: number
  readonly sentMs: number
  /** The longest wait that a caller is told: short where other calls only hold the units. */
  readonly waitMsMax: number
}

/** Never longer, whatever the state says: others give back. */
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
 * By the state that was told, at a time that is estimated from the sending and so never behind the
 * store's. Undefined where that has room, because only a larger call was refused; and for a limit
 * that may make calls wait: how long, only the store knows.
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

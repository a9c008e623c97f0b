/**
 * Takes that do more than take an amount or nothing, made of the functions of the algorithms:
 *
 * - a gate takes nothing and is refused unless one whole unit is left;
 * - an overdraw is counted first and compared then: what exceeds the limit is owed, down to its
 *   `debt`, and what exceeds that is dropped;
 * - an amount below 0 gives back.
 *
 * Their Lua twin is lua/metered.lua.
 */
import type { Take } from '../decision/plan.js'
import { type Limit, withDebt, withoutWaiting } from '../limit.js'
import type { Outcome, Step } from './algorithm.js'
import { algorithmOf } from './index.js'

/** A take as far as its counter has to know it. */
export type Demand = Omit<Take, 'key' | 'durable' | 'isAfterMarks'>

/** Returns the step of any take. */
export function stepOf(take: Demand, state: unknown, now: number): Step<unknown> {
  const { limit, amount } = take
  if (amount > 0) {
    if (take.overdraw === true) return overdraw(state, limit, amount, now)
  } else if (amount < 0) return giveBack(state, limit, amount, now, take.at)
  else if (take.gate === true) return gate(state, limit, now)
  return algorithmOf(limit).take(state, limit, amount, now, take.atLeast, take.holder)
}

/**
 * Returns what an overdraw charges if its group is refused: what its step does. But a call that is
 * refused does not wait, so a bucket lends it nothing for that.
 */
export function owedStep(
  { limit, amount }: Demand,
  step: Step<unknown>,
  state: unknown,
  now: number,
): Step<unknown> {
  const isLent = limit.borrowable > 0 && step.delayMs > 0
  return isLent ? { ...owe(state, limit, amount, now), retryAfterMs: 0 } : step
}

/** Returns what `stepOf` would say, with the present `remaining`; takes and gives back nothing. */
export function peekOf(take: Demand, state: unknown, now: number): Outcome {
  const { limit, amount } = take
  const algorithm = algorithmOf(limit)
  if (amount === 0 && take.gate === true) return gate(state, limit, now)
  const outcome = algorithm.peek(state, limit, Math.max(0, amount), now)
  if (take.overdraw !== true || outcome.retryAfterMs === 0) return outcome
  return { ...outcome, retryAfterMs: overdraw(state, limit, amount, now).retryAfterMs }
}

/**
 * Refuses unless an amount of 1 would pass, in a bucket without waiting: a bucket that lends to
 * calls that wait has nothing left. A refusal has a rebased state, like that of any take.
 */
function gate(state: unknown, limit: Limit, now: number): Step<unknown> {
  const algorithm = algorithmOf(limit)
  const atOnce = algorithm.family === 'bucket' ? withoutWaiting(limit) : limit
  const step = algorithm.take(state, atOnce, 1, now)
  if (step.retryAfterMs !== 0) return step
  return { ...present(state, limit, now), granted: 0, state: undefined, rebased: undefined }
}

/** A queue cannot owe: a leaky bucket takes the whole amount or nothing. */
function overdraw(state: unknown, limit: Limit, amount: number, now: number): Step<unknown> {
  const algorithm = algorithmOf(limit)
  const whole = algorithm.take(state, limit, amount, now)
  const isNever = limit.capacity === 0 || algorithm.family === 'queue'
  return whole.retryAfterMs === 0 || isNever ? whole : owe(state, limit, amount, now)
}

/**
 * Charges whole units, as many as fit into the limit and its debt, and lends none to calls that
 * wait. The retry time is when what is owed is paid so far that the amount fits, or if it never
 * does, when nothing is in use any more.
 */
function owe(state: unknown, limit: Limit, amount: number, now: number): Step<unknown> {
  const algorithm = algorithmOf(limit)
  const { granted, at, rebased, ...step } = algorithm.take(state, withDebt(limit), amount, now, 1)
  const charged = granted === 0 ? undefined : step.state
  const fitting = Math.min(amount, limit.capacity)
  const after = algorithm.peek(charged ?? state, withoutWaiting(limit), fitting, now)
  const { remaining, resetAfterMs, retryAfterMs } = after
  return { granted, remaining, resetAfterMs, retryAfterMs, delayMs: 0, at, state: charged, rebased }
}

function giveBack(
  state: unknown,
  limit: Limit,
  amount: number,
  now: number,
  at: number | undefined,
): Step<unknown> {
  const algorithm = algorithmOf(limit)
  const next = algorithm.give(state, limit, -amount, now, at)
  const left = algorithm.peek(next ?? state, limit, 0, now)
  // Not by a spread, which costs more than all of the above.
  return {
    granted: next === undefined ? 0 : amount,
    remaining: left.remaining,
    resetAfterMs: left.resetAfterMs,
    retryAfterMs: 0,
    delayMs: 0,
    at: left.at,
    state: next,
    rebased: undefined,
  }
}

/** What is left now. */
function present(state: unknown, limit: Limit, now: number): Outcome {
  const { granted, remaining, resetAfterMs, at } = algorithmOf(limit).peek(state, limit, 0, now)
  return { granted, remaining, resetAfterMs, retryAfterMs: 0, delayMs: 0, at }
}

/**
 * A counter that uses the exact models. It finds a wait by trying whether the call would pass then,
 * never by a formula.
 */
import type { Limit } from '../limit.js'
import type { Outcome } from './algorithm.js'
import { algorithmOf } from './index.js'
import type { Counter, Metered } from './apply.test-helper.js'
import {
  ceilOf,
  exactLimit,
  firstFrom,
  least,
  modelOf,
  most,
  type CurrentState,
} from './models.test-helper.js'

interface Demand {
  readonly wanted: bigint
  /** The least amount that passes: below the requested amount if `atLeast` is set. */
  readonly enough: bigint
}

export function createOracle(first: Limit): Counter {
  const model = modelOf(first)
  const isQueue = algorithmOf(first).family === 'queue'
  let limit = exactLimit(first)
  let state: unknown

  const stateAt = (from: unknown, now: bigint): CurrentState<unknown> =>
    from === undefined ? { state: undefined, rebased: false } : model.stateAt(from, limit, now)

  /** `after` is the state that the outcome leaves behind. */
  function answer(
    after: unknown,
    now: bigint,
    granted: bigint,
    refused: Demand | undefined,
    delayUs: bigint,
    at: bigint,
  ): Outcome {
    const then = (ms: bigint) => stateAt(after, now + ms * 1000n).state
    const resetAfterMs = firstFrom(0n, (ms) =>
      model.isReset(then(ms), limit, now + ms * 1000n, model.at(after, now)),
    )
    const free = most(0n, least(limit.capacity, model.free(after, limit, now)))
    return {
      granted: Number(granted),
      remaining: Number(free),
      resetAfterMs: Number(resetAfterMs),
      retryAfterMs: refused === undefined ? 0 : retryAfterMs(refused, then, now),
      delayMs: Number(ceilOf(delayUs, 1000n)),
      at: Number(at),
    }
  }

  function retryAfterMs(
    { wanted, enough }: Demand,
    then: (ms: bigint) => unknown,
    now: bigint,
  ): number | null {
    const passes = (from: unknown, at: bigint) =>
      model.admits(from, limit, wanted, at) ||
      (enough < wanted && model.free(from, limit, at) >= enough)
    if (!passes(undefined, now)) return null
    return Number(firstFrom(0n, (ms) => passes(then(ms), now + ms * 1000n)))
  }

  function decide(amount: number, time: number, atLeast: number, spends: boolean): Outcome {
    const [wanted, enough, now] = [BigInt(amount), BigInt(atLeast), BigInt(time)]
    const current = stateAt(state, now)
    const at = model.at(current.state, now)
    if (wanted === 0n) return answer(current.state, now, 0n, undefined, 0n, at)

    const fits = model.admits(current.state, limit, wanted, now)
    const free = model.free(current.state, limit, now)
    const granted = fits ? wanted : enough < wanted && free >= enough ? free : 0n
    if (granted === 0n) {
      if (spends && current.rebased) state = current.state
      return answer(current.state, now, 0n, { wanted, enough }, 0n, at)
    }
    const delayUs = fits ? model.delayUs(current.state, limit, wanted, now) : 0n
    if (!spends) return answer(current.state, now, 0n, undefined, delayUs, at)
    state = model.spend(current.state, limit, granted, now)
    return answer(state, now, granted, undefined, delayUs, at)
  }

  /** Whether one whole unit is left; in a queue, whether a call could join it. */
  function hasUnit(from: unknown, now: bigint): boolean {
    if (isQueue) return model.admits(from, limit, 1n, now)
    return model.free(from, limit, now) >= 1n
  }

  function gate(time: number, writes: boolean): Outcome {
    const now = BigInt(time)
    const current = stateAt(state, now)
    const at = model.at(current.state, now)
    const outcome = answer(current.state, now, 0n, undefined, 0n, at)
    if (hasUnit(current.state, now)) return outcome
    if (writes && current.rebased) state = current.state
    if (!hasUnit(undefined, now)) return { ...outcome, retryAfterMs: null }
    const then = (ms: bigint) => stateAt(current.state, now + ms * 1000n).state
    const waitMs = firstFrom(0n, (ms) => hasUnit(then(ms), now + ms * 1000n))
    return { ...outcome, retryAfterMs: Number(waitMs) }
  }

  /** Takes the amount, or as much as can be owed; then finds when the amount would fit. */
  function overdraw(amount: number, time: number, spends: boolean): Outcome {
    const [wanted, now] = [BigInt(amount), BigInt(time)]
    const current = stateAt(state, now)
    const fits = model.admits(current.state, limit, wanted, now)
    if (fits || isQueue || limit.capacity === 0n) return decide(amount, time, amount, spends)
    const free = model.free(current.state, limit, now)
    const granted = most(0n, least(wanted, free + limit.debt))
    const at = model.at(current.state, now)
    const owing = granted === 0n ? current.state : model.spend(current.state, limit, granted, now)
    if (spends && (granted > 0n || current.rebased)) state = owing
    const fitting = least(wanted, limit.capacity)
    const waitMs = firstFrom(0n, (ms) => {
      const then = now + ms * 1000n
      return model.free(stateAt(owing, then).state, limit, then) >= fitting
    })
    const outcome = spends
      ? answer(owing, now, granted, undefined, 0n, at)
      : answer(current.state, now, 0n, undefined, 0n, at)
    return { ...outcome, retryAfterMs: Number(waitMs) }
  }

  function giveBack(amount: number, now: number, at: number | undefined): Outcome {
    const isGiven = give(-amount, now, at, false)
    const outcome = decide(0, now, 0, false)
    return isGiven ? { ...outcome, granted: amount } : outcome
  }

  /** Returns whether anything was given back. */
  function give(amount: number, now: number, at: number | undefined, undone: boolean): boolean {
    // A give subtracts from all that was used, even if the limit now holds less.
    const boundless = { ...limit, borrowable: limit.borrowable + 10n ** 30n }
    const current =
      state === undefined ? undefined : model.stateAt(state, boundless, BigInt(now)).state
    if (current === undefined || isBeyondCounting(state, limit)) return false
    // A log without entries is none.
    if (Array.isArray(state) && state.length === 0) return false
    const from = at === undefined ? undefined : BigInt(at)
    const given = model.give(current, limit, BigInt(amount), BigInt(now), from, undone)
    state = given ?? state
    return given !== undefined
  }

  function metered(amount: number, now: number, more: Metered, spends: boolean) {
    if (amount < 0) return spends ? giveBack(amount, now, more.at) : decide(0, now, 0, false)
    if (amount === 0) return more.gate === true ? gate(now, spends) : undefined
    return more.overdraw === true ? overdraw(amount, now, spends) : undefined
  }

  return {
    change: (next) => {
      limit = exactLimit(next)
    },
    take: (amount, now, atLeast = amount, more = {}) =>
      metered(amount, now, more, true) ?? decide(amount, now, atLeast, true),
    peek: (amount, now, more = {}) =>
      metered(amount, now, more, false) ?? decide(amount, now, amount, false),
    give: (amount, now, at, undone = false) => void give(amount, now, at, undone),
    charge(amount, now, at, debt) {
      const current = stateAt(state, BigInt(now)).state
      const numbers = [BigInt(amount), BigInt(now), BigInt(at), BigInt(debt)] as const
      state = model.charge(current, limit, ...numbers) ?? state
    },
  }
}

/** Whether a bucket exceeds the arithmetic of this limit; a give then changes nothing. */
function isBeyondCounting(state: unknown, limit: { readonly q: bigint }): boolean {
  const { inUse, q } = state as { readonly inUse?: bigint; readonly q?: bigint }
  if (inUse === undefined || q === undefined) return false
  const part = inUse % q < limit.q - 1n ? inUse % q : limit.q - 1n
  return (inUse / q) * limit.q + part > BigInt(Number.MAX_SAFE_INTEGER)
}

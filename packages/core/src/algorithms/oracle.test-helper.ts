/**
 * A counter that uses the exact models. It finds a wait by trying whether the call would pass then,
 * never by a formula.
 */
import type { Limit } from '../limit.js'
import type { Outcome } from './algorithm.js'
import type { Counter } from './apply.test-helper.js'
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

  return {
    change: (next) => {
      limit = exactLimit(next)
    },
    take: (amount, now, atLeast = amount) => decide(amount, now, atLeast, true),
    peek: (amount, now) => decide(amount, now, amount, false),
    give(amount, now, at, undone = false) {
      // A give subtracts from all that was used, even if the limit now holds less.
      const boundless = { ...limit, borrowable: limit.borrowable + 10n ** 30n }
      const current =
        state === undefined ? undefined : model.stateAt(state, boundless, BigInt(now)).state
      if (current === undefined || isBeyondCounting(state, limit)) return
      const from = at === undefined ? undefined : BigInt(at)
      state = model.give(current, limit, BigInt(amount), BigInt(now), from, undone) ?? state
    },
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

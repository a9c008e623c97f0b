/** A counter that applies the verbs of a store to an algorithm's states, as every store must. */
import type { Limit } from '../limit.js'
import type { Outcome, Step } from './algorithm.js'
import { algorithmOf } from './index.js'
import { type Demand, peekOf, stepOf } from './metered.js'

/** What a take does besides taking its amount. */
export type Metered = Pick<Demand, 'gate' | 'overdraw' | 'at' | 'holder'>

export interface Counter {
  /** Changes the limit from now on and keeps what was counted. */
  change(limit: Limit): void
  take(amount: number, now: number, atLeast?: number, metered?: Metered): Outcome
  peek(amount: number, now: number, metered?: Metered): Outcome
  give(amount: number, now: number, at?: number, undone?: boolean): void
  charge(amount: number, now: number, at: number, debt: number): void
}

/** One verb at one time. */
export interface Act {
  readonly verb: 'take' | 'peek' | 'give' | 'charge'
  readonly now: number
  readonly amount: number
  readonly atLeast?: number | undefined
  /** Whose places a take takes. */
  readonly holder?: number | undefined
  readonly gate?: boolean | undefined
  readonly overdraw?: boolean | undefined
  /**
   * When the units of a give, or of a take that gives back, were taken, or those of a charge were
   * spent.
   */
  readonly at?: number | undefined
  readonly debt?: number | undefined
  /** For a give: whether its call was never admitted. */
  readonly undone?: boolean | undefined
  /** The limit from this act on. */
  readonly limit?: Limit | undefined
}

/** Returns the outcome of an act; for a give or a charge, the outcome of a peek of 1 after it. */
export function applyAct(counter: Counter, { verb, now, amount, ...more }: Act): Outcome {
  if (more.limit !== undefined) counter.change(more.limit)
  const { gate, overdraw, at, holder } = more
  const metered = { gate, overdraw, at, holder }
  if (verb === 'take') return counter.take(amount, now, more.atLeast, metered)
  if (verb === 'give') counter.give(amount, now, more.at, more.undone)
  if (verb === 'charge') counter.charge(amount, now, more.at ?? now, more.debt ?? 0)
  return verb === 'peek' ? counter.peek(amount, now, metered) : counter.peek(1, now)
}

export interface StoredCounter extends Counter {
  /** The stored state, undefined at first. */
  state(): unknown
  /** Copies the counter, to try an act without changing the original. */
  copy(): StoredCounter
  /** The time from which the stored state no longer has an effect. */
  expiresAt(): number | undefined
}

export function createStoredCounter(first: Limit, from?: unknown): StoredCounter {
  let limit = first
  let state = from
  const algorithm = () => algorithmOf(limit)

  function write(next: unknown): void {
    if (next === undefined) return
    requireWholeNumbers(next)
    state = JSON.parse(JSON.stringify(next))
  }

  return {
    state: () => state,
    copy: () => createStoredCounter(limit, state),
    expiresAt: () => (state === undefined ? undefined : algorithm().expiresAt(state, limit)),
    change: (next) => {
      limit = next
    },
    take(amount, now, atLeast, metered) {
      const step = stepOf({ limit, amount, atLeast, ...metered }, state, now)
      const isCharged = step.retryAfterMs === 0 || step.granted > 0
      write(isCharged ? step.state : step.rebased)
      return outcomeOf(step)
    },
    peek: (amount, now, metered) => outcomeOf(peekOf({ limit, amount, ...metered }, state, now)),
    give: (amount, now, at, undone) =>
      write(algorithm().give(state, limit, amount, now, at, undone)),
    charge: (amount, now, at, debt) =>
      write(algorithm().charge(state, limit, amount, now, at, debt)),
  }
}

/** Drops the states of a step and keeps its outcome. */
function outcomeOf(step: Outcome | Step<unknown>): Outcome {
  const { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at } = step
  return { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at }
}

/** Checks that a state holds only whole numbers that JSON and a double represent exactly. */
function requireWholeNumbers(state: unknown): void {
  if (Array.isArray(state)) {
    for (const entry of state) requireWholeNumbers(entry)
    return
  }
  for (const [field, value] of Object.entries(state as Readonly<Record<string, unknown>>)) {
    if (Number.isSafeInteger(value) && Number(value) >= 0 && !Object.is(value, -0)) continue
    throw new Error(`a state may not hold ${field}: ${String(value)}`)
  }
}

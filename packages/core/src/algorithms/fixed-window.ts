/**
 * Fixed window: a count per window. Windows start at multiples of their length since 1970 and are
 * half open, so up to twice the limit can pass around an edge; in exchange the state is two
 * numbers.
 */
import type { Limit } from '../limit.js'
import { MAX_UNITS, usToMsUp } from '../numbers.js'
import {
  type Algorithm,
  isFromAnotherClock,
  type Outcome,
  type StateLayout,
  type Step,
} from './algorithm.js'

export interface FixedWindow {
  readonly start: number
  readonly count: number
}

/** A state as of now. */
export interface CurrentWindow extends FixedWindow {
  /** The time used as now: the state's own if it is ahead. */
  readonly at: number
  readonly rebased: boolean
}

export function windowStart(at: number, limit: Limit): number {
  return at - (at % limit.windowUs)
}

function view(window: FixedWindow | undefined, limit: Limit, now: number): CurrentWindow {
  if (window === undefined)
    return { at: now, start: windowStart(now, limit), count: 0, rebased: false }
  const rebased = isFromAnotherClock(window.start, limit, now)
  const at = rebased ? now : Math.max(now, window.start)
  const start = windowStart(at, limit)
  // A window of another length under the same name continues if it began within this one.
  const count = rebased || window.start >= start ? window.count : 0
  return { at, start, count, rebased }
}

function step(
  current: CurrentWindow,
  endsAt: number,
  limit: Limit,
  now: number,
  granted: number,
  fits: boolean | null,
): Step<FixedWindow> {
  const endsInMs = usToMsUp(endsAt - now)
  const rebased = current.rebased ? { start: current.start, count: current.count } : undefined
  return {
    granted,
    remaining: Math.max(0, limit.max - current.count - granted),
    resetAfterMs: endsInMs,
    retryAfterMs: fits === null ? null : fits ? 0 : endsInMs,
    delayMs: 0,
    at: current.at,
    state: granted === 0 ? rebased : { start: current.start, count: current.count + granted },
    rebased,
  }
}

/** Takes from a window that ends at `endsAt`. */
export function takeFrom(
  current: CurrentWindow,
  endsAt: number,
  limit: Limit,
  amount: number,
  now: number,
  atLeast: number,
): Step<FixedWindow> {
  if (amount === 0) return step({ ...current, rebased: false }, endsAt, limit, now, 0, true)
  const granted = Math.min(amount, limit.max - current.count)
  if (granted >= atLeast) return step(current, endsAt, limit, now, granted, true)
  return step(current, endsAt, limit, now, 0, atLeast > limit.max ? null : false)
}

export function peekAt(
  current: CurrentWindow,
  endsAt: number,
  limit: Limit,
  amount: number,
  now: number,
): Outcome {
  if (amount > limit.max) return step(current, endsAt, limit, now, 0, null)
  return step(current, endsAt, limit, now, 0, amount === 0 || current.count + amount <= limit.max)
}

function take(
  window: FixedWindow | undefined,
  limit: Limit,
  amount: number,
  now: number,
  atLeast = amount,
): Step<FixedWindow> {
  const current = view(window, limit, now)
  return takeFrom(current, current.start + limit.windowUs, limit, amount, now, atLeast)
}

function peek(window: FixedWindow | undefined, limit: Limit, amount: number, now: number): Outcome {
  const current = view(window, limit, now)
  return peekAt(current, current.start + limit.windowUs, limit, amount, now)
}

function give(
  window: FixedWindow | undefined,
  limit: Limit,
  amount: number,
  now: number,
  at?: number,
): FixedWindow | undefined {
  if (window === undefined) return undefined
  const current = view(window, limit, now)
  if (windowStart(at ?? current.at, limit) !== current.start) return undefined
  return { start: current.start, count: Math.max(0, current.count - amount) }
}

function charge(
  window: FixedWindow | undefined,
  limit: Limit,
  amount: number,
  now: number,
  at: number,
  debt: number,
): FixedWindow | undefined {
  const current = view(window, limit, now)
  if (at < current.start) return undefined
  const most = limit.max + debt
  return {
    start: current.start,
    count: Math.max(current.count, Math.min(current.count + amount, most)),
  }
}

function expiresAt(window: FixedWindow, limit: Limit): number {
  return windowStart(window.start, limit) + limit.windowUs
}

/** Also the layout of caller and calendar windows, under formats of their own. */
export const windowLayout: StateLayout<FixedWindow> = {
  fields: [
    { name: 'start', bytes: 7, wideBytes: 7 },
    { name: 'count', bytes: 4, wideBytes: 7 },
  ],
  decode: (numbers) => ({ start: numbers.readCount(), count: numbers.readCount() }),
  read: (doubles, at) => ({ start: doubles[at] ?? 0, count: doubles[at + 1] ?? 0 }),
  write: (state, doubles, at) => {
    doubles[at] = state.start
    doubles[at + 1] = state.count
  },
}

export const fixedWindow: Algorithm<FixedWindow> = {
  name: 'fixed-window',
  format: 4,
  lua: 'fixed-window',
  family: 'window',
  leasable: true,
  mergeable: true,
  splittable: true,
  alignedToClock: true,
  resetsAtOnce: true,
  windowsCounted: 1,
  unitsBeyondCapacity: 0,
  holdsMax: true,
  fields: ['start', 'window', 'zone', 'debt'],
  largestMax: MAX_UNITS,
  largestCapacity: MAX_UNITS,
  capacityOf: ({ max }) => max,
  prepare: ({ max }) => ({ capacity: max, maxWaitUs: 0, borrowable: 0 }),
  findPrecisionProblem: () => undefined,
  resize: ({ name, windowMs }, max) => ({ algorithm: 'fixed-window', name, windowMs, max }),
  layout: windowLayout,
  take,
  peek,
  give,
  charge,
  expiresAt,
}

/**
 * Sliding window counter: the count of this window, plus the count of the previous one weighted by
 * the share of it that still lies within one window of now.
 *
 * Compares prev * left + (curr + amount) * window with max * window, in units of `scale`
 * microseconds where a product would exceed 2^53. `left` is then rounded up and the window down,
 * which may refuse up to prev / 2^20 units too many and never over-admits.
 */
import type { Limit } from '../limit.js'
import { ceilDiv, floorDiv, MAX_UNITS, usToMsUp } from '../numbers.js'
import {
  type Algorithm,
  isFromAnotherClock,
  type Outcome,
  type StateLayout,
  type Step,
} from './algorithm.js'
import { windowStart } from './fixed-window.js'
import { findScaleProblem } from './precision.js'

export interface SlidingCounter {
  readonly start: number
  readonly curr: number
  readonly prev: number
}

interface View extends SlidingCounter {
  /** The time used as now: the state's own if it is ahead. */
  readonly at: number
  readonly rebased: boolean
}

function view(counter: SlidingCounter | undefined, limit: Limit, now: number): View {
  if (counter === undefined) {
    return { at: now, start: windowStart(now, limit), curr: 0, prev: 0, rebased: false }
  }
  const rebased = isFromAnotherClock(counter.start, limit, now)
  const at = rebased ? now : Math.max(now, counter.start)
  const start = windowStart(at, limit)
  if (rebased || counter.start >= start) {
    return { at, start, curr: counter.curr, prev: counter.prev, rebased }
  }
  const wasLast = counter.start >= start - limit.windowUs
  return { at, start, curr: 0, prev: wasLast ? counter.curr : 0, rebased }
}

function stateOf({ start, curr, prev }: View): SlidingCounter {
  return { start, curr, prev }
}

/** Returns the whole units free now. */
function free(current: View, limit: Limit): number {
  const steps = ceilDiv(current.start + limit.windowUs - current.at, limit.scale)
  const left = Math.min(steps, limit.scaledWindow)
  const room = (limit.max - current.curr) * limit.scaledWindow - current.prev * left
  return floorDiv(room, limit.scaledWindow)
}

/**
 * Returns the microseconds until the amount fits: within this window, the next, or the one after.
 */
function waitFor(current: View, limit: Limit, amount: number, now: number): number {
  if (free(current, limit) >= amount) return 0
  const end = current.start + limit.windowUs
  const leftInThisWindow = leftWhenItFits(current.prev, limit.max - current.curr - amount, limit)
  if (leftInThisWindow > 0) return end - leftInThisWindow - now
  const leftInNextWindow = leftWhenItFits(current.curr, limit.max - amount, limit)
  return end + limit.windowUs - Math.min(leftInNextWindow, limit.windowUs) - now
}

/** Returns the longest rest of a window at which `room` units are free while `before` fade out. */
function leftWhenItFits(before: number, room: number, limit: Limit): number {
  if (room < 0) return 0
  if (before <= room) return limit.windowUs
  return floorDiv(room * limit.scaledWindow, before) * limit.scale
}

function resetAfterMs(current: View, limit: Limit, now: number): number {
  if (current.curr > 0) return usToMsUp(current.start + 2 * limit.windowUs - now)
  if (current.prev > 0) return usToMsUp(current.start + limit.windowUs - now)
  return 0
}

function admit(current: View, limit: Limit, now: number, granted: number): Step<SlidingCounter> {
  const after = granted === 0 ? current : { ...current, curr: current.curr + granted }
  const rebased = current.rebased ? stateOf(current) : undefined
  return {
    granted,
    remaining: Math.max(0, free(after, limit)),
    resetAfterMs: resetAfterMs(after, limit, now),
    retryAfterMs: 0,
    delayMs: 0,
    at: current.at,
    state: granted === 0 ? rebased : stateOf(after),
    rebased,
  }
}

function refuse(current: View, limit: Limit, amount: number, now: number): Step<SlidingCounter> {
  const cure = amount > limit.max ? null : usToMsUp(waitFor(current, limit, amount, now))
  return {
    granted: 0,
    remaining: Math.max(0, free(current, limit)),
    resetAfterMs: resetAfterMs(current, limit, now),
    retryAfterMs: cure,
    delayMs: 0,
    at: current.at,
    state: undefined,
    rebased: current.rebased ? stateOf(current) : undefined,
  }
}

function take(
  counter: SlidingCounter | undefined,
  limit: Limit,
  amount: number,
  now: number,
  atLeast = amount,
): Step<SlidingCounter> {
  const current = view(counter, limit, now)
  if (amount === 0) return admit({ ...current, rebased: false }, limit, now, 0)
  const granted = Math.min(amount, free(current, limit))
  if (granted >= atLeast) return admit(current, limit, now, granted)
  return refuse(current, limit, atLeast, now)
}

function peek(
  counter: SlidingCounter | undefined,
  limit: Limit,
  amount: number,
  now: number,
): Outcome {
  const current = view(counter, limit, now)
  if (amount === 0 || free(current, limit) >= amount) return admit(current, limit, now, 0)
  return refuse(current, limit, amount, now)
}

/** Returns units to the window they were taken in; the previous window still counts. */
function give(
  counter: SlidingCounter | undefined,
  limit: Limit,
  amount: number,
  now: number,
  at?: number,
): SlidingCounter | undefined {
  if (counter === undefined) return undefined
  const current = view(counter, limit, now)
  const { start, curr, prev } = current
  const from = windowStart(at ?? current.at, limit)
  if (from === start) return { start, curr: Math.max(0, curr - amount), prev }
  if (from === start - limit.windowUs) return { start, curr, prev: Math.max(0, prev - amount) }
  return undefined
}

function charge(
  counter: SlidingCounter | undefined,
  limit: Limit,
  amount: number,
  now: number,
  at: number,
  debt: number,
): SlidingCounter | undefined {
  const { start, curr, prev } = view(counter, limit, now)
  const raise = (count: number) => Math.max(count, Math.min(count + amount, limit.max + debt))
  if (at >= start) return { start, curr: raise(curr), prev }
  if (at >= start - limit.windowUs) return { start, curr, prev: raise(prev) }
  return undefined
}

function expiresAt(counter: SlidingCounter, limit: Limit): number {
  const windows = counter.curr > 0 ? 2 : 1
  return windowStart(counter.start, limit) + windows * limit.windowUs
}

const layout: StateLayout<SlidingCounter> = {
  fields: [
    { name: 'start', bytes: 7, wideBytes: 7 },
    { name: 'curr', bytes: 4, wideBytes: 7 },
    { name: 'prev', bytes: 4, wideBytes: 7 },
  ],
  decode: (numbers) => ({
    start: numbers.readCount(),
    curr: numbers.readCount(),
    prev: numbers.readCount(),
  }),
  read: (doubles, at) => ({
    start: doubles[at] ?? 0,
    curr: doubles[at + 1] ?? 0,
    prev: doubles[at + 2] ?? 0,
  }),
  write: (state, doubles, at) => {
    doubles[at] = state.start
    doubles[at + 1] = state.curr
    doubles[at + 2] = state.prev
  },
}

export const slidingWindowCounter: Algorithm<SlidingCounter> = {
  name: 'sliding-window-counter',
  format: 5,
  lua: 'sliding-window-counter',
  family: 'window',
  leasable: true,
  mergeable: true,
  splittable: true,
  alignedToClock: true,
  resetsAtOnce: false,
  windowsCounted: 2,
  unitsBeyondCapacity: 0,
  holdsMax: true,
  fields: ['debt'],
  largestMax: MAX_UNITS,
  largestCapacity: MAX_UNITS,
  capacityOf: ({ max }) => max,
  prepare: ({ max }) => ({ capacity: max, maxWaitUs: 0, borrowable: 0 }),
  findPrecisionProblem: findScaleProblem,
  resize: ({ name, windowMs }, max) => ({
    algorithm: 'sliding-window-counter',
    name,
    windowMs,
    max,
  }),
  layout,
  take,
  peek,
  give,
  charge,
  expiresAt,
}

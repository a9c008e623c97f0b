/**
 * Caller window: a fixed window with `start: call`. A caller's window begins with its first call
 * and is half open; the first call after its end begins the next one. No instant frees all callers
 * at once. A window whose units were all given back has not begun: a call that was refused
 * elsewhere must not begin one. Two windows of one caller may touch, so up to twice the limit can
 * pass around the end of one, as with every fixed window.
 */
import type { Limit } from '../limit.js'
import { MAX_UNITS, usToMsUp } from '../numbers.js'
import { type Algorithm, isFromAnotherClock, type Outcome, type Step } from './algorithm.js'
import { type FixedWindow, windowLayout } from './fixed-window.js'

interface View extends FixedWindow {
  /** The time used as now: the state's own if it is ahead. */
  readonly at: number
  /** Whether `start` and `count` are those of a window that has begun and not ended. */
  readonly isOpen: boolean
  readonly rebased: boolean
}

function view(window: FixedWindow | undefined, limit: Limit, now: number): View {
  if (window === undefined || window.count === 0) {
    return { at: now, start: now, count: 0, isOpen: false, rebased: false }
  }
  const { start, count } = window
  if (isFromAnotherClock(start, limit, now)) {
    return { at: now, start: now, count, isOpen: true, rebased: true }
  }
  const at = Math.max(now, start)
  // A window of another length under the same name continues if it would still be open.
  if (at < start + limit.windowUs) return { at, start, count, isOpen: true, rebased: false }
  return { at, start: at, count: 0, isOpen: false, rebased: false }
}

function step(
  current: View,
  limit: Limit,
  now: number,
  granted: number,
  fits: boolean | null,
): Step<FixedWindow> {
  const endsInMs = usToMsUp(current.start + limit.windowUs - now)
  const rebased = current.rebased ? { start: current.start, count: current.count } : undefined
  return {
    granted,
    remaining: Math.max(0, limit.max - current.count - granted),
    // A window that has not begun has no end.
    resetAfterMs: current.isOpen || granted > 0 ? endsInMs : 0,
    retryAfterMs: fits === null ? null : fits ? 0 : endsInMs,
    delayMs: 0,
    at: current.at,
    state: granted === 0 ? rebased : { start: current.start, count: current.count + granted },
    rebased,
  }
}

function take(
  window: FixedWindow | undefined,
  limit: Limit,
  amount: number,
  now: number,
  atLeast = amount,
): Step<FixedWindow> {
  const current = view(window, limit, now)
  if (amount === 0) return step({ ...current, rebased: false }, limit, now, 0, true)
  const granted = Math.min(amount, limit.max - current.count)
  if (granted >= atLeast) return step(current, limit, now, granted, true)
  return step(current, limit, now, 0, atLeast > limit.max ? null : false)
}

function peek(window: FixedWindow | undefined, limit: Limit, amount: number, now: number): Outcome {
  const current = view(window, limit, now)
  if (amount > limit.max) return step(current, limit, now, 0, null)
  return step(current, limit, now, 0, amount === 0 || current.count + amount <= limit.max)
}

function give(
  window: FixedWindow | undefined,
  limit: Limit,
  amount: number,
  now: number,
  takenAt?: number,
): FixedWindow | undefined {
  const { at, start, count, isOpen } = view(window, limit, now)
  const from = takenAt ?? at
  if (!isOpen || from < start || from >= start + limit.windowUs) return undefined
  return { start, count: Math.max(0, count - amount) }
}

/**
 * Units that were spent before the first known call began the window themselves, so its start moves
 * back to them. The start of a window ahead of now is not moved: the clock has stepped back, and
 * the window would end too early.
 */
function charge(
  window: FixedWindow | undefined,
  limit: Limit,
  amount: number,
  now: number,
  spentAt: number,
  debt: number,
): FixedWindow | undefined {
  const { at, start, count } = view(window, limit, now)
  if (spentAt + limit.windowUs <= at) return undefined
  const most = limit.max + debt
  return {
    start: start > now ? start : Math.min(start, spentAt),
    count: Math.max(count, Math.min(count + amount, most)),
  }
}

function expiresAt(window: FixedWindow, limit: Limit): number {
  return window.start + limit.windowUs
}

export const callerWindow: Algorithm<FixedWindow> = {
  name: 'fixed-window',
  format: 7,
  lua: 'caller-window',
  family: 'window',
  leasable: false,
  mergeable: false,
  splittable: false,
  alignedToClock: false,
  resetsAtOnce: false,
  windowsCounted: 1,
  unitsBeyondCapacity: 0,
  holdsMax: true,
  fields: ['start', 'debt'],
  largestMax: MAX_UNITS,
  largestCapacity: MAX_UNITS,
  capacityOf: ({ max }) => max,
  prepare: ({ max }) => ({ capacity: max, maxWaitUs: 0, borrowable: 0 }),
  findPrecisionProblem: () => undefined,
  resize: ({ name, windowMs }, max) => ({
    algorithm: 'fixed-window',
    start: 'call',
    name,
    windowMs,
    max,
  }),
  layout: windowLayout,
  take,
  peek,
  give,
  charge,
  expiresAt,
}

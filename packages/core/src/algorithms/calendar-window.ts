/**
 * Calendar window: a fixed window that is a day, week or month of a time zone. A state is when the
 * first of its units was taken, not the edge of its window: nodes whose databases of time zones
 * disagree about an edge, and a rule whose zone changes, go on with a count that began after the
 * edge that they know. As with every fixed window up to twice the limit can pass around an edge.
 */
import { type CalendarWindow, calendarWindowAt } from '../calendar.js'
import type { Limit } from '../limit.js'
import { MAX_UNITS } from '../numbers.js'
import { type Algorithm, isFromAnotherClock, type Outcome, type Step } from './algorithm.js'
import {
  type CurrentWindow,
  type FixedWindow,
  peekAt,
  takeFrom,
  windowLayout,
} from './fixed-window.js'

function windowAt(at: number, { calendar }: Limit): CalendarWindow {
  if (calendar === undefined) throw new RangeError('A calendar window needs a calendar')
  return calendarWindowAt(calendar, at)
}

/** A state as of now, and the edges of the window that it is in or would be. */
interface View extends CurrentWindow {
  readonly beganAt: number
  readonly endsAt: number
}

function view(state: FixedWindow | undefined, limit: Limit, now: number): View {
  const rebased = state !== undefined && isFromAnotherClock(state.start, limit, now)
  const at = state === undefined || rebased ? now : Math.max(now, state.start)
  const { start: beganAt, end: endsAt } = windowAt(at, limit)
  // A window of another unit or zone under the same name continues if it began within this one.
  const isKept = state !== undefined && !rebased && state.start >= beganAt
  const start = isKept ? state.start : at
  const count = isKept || rebased ? state.count : 0
  return { at, start, count, rebased, beganAt, endsAt }
}

function take(
  state: FixedWindow | undefined,
  limit: Limit,
  amount: number,
  now: number,
  atLeast = amount,
): Step<FixedWindow> {
  const current = view(state, limit, now)
  return takeFrom(current, current.endsAt, limit, amount, now, atLeast)
}

function peek(state: FixedWindow | undefined, limit: Limit, amount: number, now: number): Outcome {
  const current = view(state, limit, now)
  return peekAt(current, current.endsAt, limit, amount, now)
}

function give(
  state: FixedWindow | undefined,
  limit: Limit,
  amount: number,
  now: number,
  takenAt?: number,
): FixedWindow | undefined {
  const { at, start, count, beganAt, endsAt } = view(state, limit, now)
  const from = takenAt ?? at
  if (count === 0 || from < beganAt || from >= endsAt) return undefined
  return { start, count: Math.max(0, count - amount) }
}

/**
 * The start of a window ahead of now is not moved back to units that were spent before it: the
 * clock has stepped back.
 */
function charge(
  state: FixedWindow | undefined,
  limit: Limit,
  amount: number,
  now: number,
  spentAt: number,
  debt: number,
): FixedWindow | undefined {
  const { start, count, beganAt } = view(state, limit, now)
  if (spentAt < beganAt) return undefined
  return {
    start: start > now ? start : Math.min(start, spentAt),
    count: Math.max(count, Math.min(count + amount, limit.max + debt)),
  }
}

function expiresAt({ start }: FixedWindow, limit: Limit): number {
  return windowAt(start, limit).end
}

export const calendarWindow: Algorithm<FixedWindow> = {
  name: 'fixed-window',
  format: 9,
  lua: 'calendar-window',
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
  resize: ({ name, windowMs, calendar }, max) => ({
    algorithm: 'fixed-window',
    name,
    windowMs,
    window: calendar?.unit,
    zone: calendar?.zone,
    max,
  }),
  layout: windowLayout,
  take,
  peek,
  give,
  charge,
  expiresAt,
}

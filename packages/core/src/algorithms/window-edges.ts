/**
 * The windows of a limit that is aligned to the clock: multiples of its length since 1970, or those
 * of a calendar.
 */
import { calendarWindowAt } from '../calendar.js'
import type { Limit } from '../limit.js'

export type LimitWindows = Pick<Limit, 'windowUs' | 'calendar'>

/** The start of the window that contains `at`, in microseconds; may be before 1970. */
export function windowStartOf({ windowUs, calendar }: LimitWindows, at: number): number {
  return calendar === undefined ? at - (at % windowUs) : calendarWindowAt(calendar, at).start
}

export function windowEndOf(limit: LimitWindows, at: number): number {
  const { windowUs, calendar } = limit
  if (calendar !== undefined) return calendarWindowAt(calendar, at).end
  return windowStartOf(limit, at) + windowUs
}

/** The number of the window that contains `at`: one more than that of the window before. */
export function windowNumberOf({ windowUs, calendar }: LimitWindows, at: number): number {
  return calendar === undefined ? Math.floor(at / windowUs) : calendarWindowAt(calendar, at).number
}

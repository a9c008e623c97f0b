/**
 * Finds calendar windows without knowing any offset: by asking at which instant the date that a
 * clock of the zone shows becomes another one. Slow, and only for zones whose date never goes back.
 */
import type { Calendar, CalendarUnit, CalendarWindow } from './calendar.js'

/**
 * Zones with daylight saving at night and at midnight, of half an hour, with offsets of 45 minutes,
 * and one that skipped a day.
 */
export const ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'America/Sao_Paulo',
  'Africa/Cairo',
  'Asia/Beirut',
  'Asia/Kathmandu',
  'Australia/Lord_Howe',
  'Pacific/Apia',
  'Pacific/Chatham',
] as const

const HOUR_US = 3_600_000_000
/** Longer than any window of the unit. */
const LONGEST_US: Readonly<Record<CalendarUnit, number>> = {
  month: 32 * 24 * HOUR_US,
  week: 8 * 24 * HOUR_US,
  day: 27 * HOUR_US,
}

const clocks = new Map<string, Intl.DateTimeFormat>()
const known = new Map<string, Omit<CalendarWindow, 'number'>[]>()

/** The date that a clock of the zone shows, as `2026-03-29`. */
function dateAt(zone: string, us: number): string {
  const clock = clocks.get(zone) ?? new Intl.DateTimeFormat('sv-SE', { timeZone: zone })
  clocks.set(zone, clock)
  return clock.format(Math.floor(us / 1000))
}

/** What all instants of a window have in common; texts of later windows are greater. */
function labelAt({ unit, zone }: Calendar, us: number): string {
  const date = dateAt(zone, us)
  if (unit === 'day') return date
  if (unit === 'month') return date.slice(0, 7)
  const day = new Date(`${date}T00:00:00Z`)
  // Sunday is the last day of its week.
  day.setUTCDate(day.getUTCDate() - ((day.getUTCDay() + 6) % 7))
  return day.toISOString().slice(0, 10)
}

export function searchCalendarWindow(
  calendar: Calendar,
  at: number,
): Omit<CalendarWindow, 'number'> {
  const name = `${calendar.unit} ${calendar.zone}`
  const windows = known.get(name) ?? []
  known.set(name, windows)
  const before = windows.find(({ start, end }) => at >= start && at < end)
  if (before !== undefined) return before
  const label = labelAt(calendar, at)
  const longest = LONGEST_US[calendar.unit]
  const start = firstWhere(at - longest, at, (us) => labelAt(calendar, us) >= label)
  const end = firstWhere(at, at + longest, (us) => labelAt(calendar, us) > label)
  windows.push({ start, end })
  return { start, end }
}

/** The first whole millisecond for which `holds`, which is false at `from` and true at `to`. */
function firstWhere(from: number, to: number, holds: (us: number) => boolean): number {
  let [low, high] = [Math.floor(from / 1000), Math.ceil(to / 1000)]
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2)
    if (holds(middle * 1000)) high = middle
    else low = middle
  }
  return high * 1000
}

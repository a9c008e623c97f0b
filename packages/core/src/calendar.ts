/**
 * Calendar windows: the days, weeks and months of a time zone, daylight saving included. A week
 * starts on Monday. A window starts at the first instant at which its first day is reached, and
 * ends where the next one starts: where no midnight exists on that day, at the end of the gap;
 * where the clock goes back over midnight, when midnight is reached for the first time.
 *
 * The edges are a pure function of zone, unit and time. They come from the runtime's database of
 * time zones (`Intl`), so a question costs microseconds; windows are therefore computed for many
 * weeks at a time and kept, and a call costs a comparison with the window that was asked for last.
 */

export const CALENDAR_UNITS = ['month', 'week', 'day'] as const
export type CalendarUnit = (typeof CALENDAR_UNITS)[number]

/** The windows of a limit: all months of Europe/Berlin, for example. */
export interface Calendar {
  readonly unit: CalendarUnit
  /** A name of the time zone database. */
  readonly zone: string
}

export const DEFAULT_ZONE = 'UTC'

const DAY_MS = 86_400_000

/** The usual length of a window, for a month the longest. Windows at a clock change differ. */
export const CALENDAR_MS: Readonly<Record<CalendarUnit, number>> = {
  month: 31 * DAY_MS,
  week: 7 * DAY_MS,
  day: DAY_MS,
}

/** Half open, in microseconds since 1970. */
export interface CalendarWindow {
  readonly start: number
  readonly end: number
  /** Of two windows the later one has the higher number, and that of a neighbour differs by 1. */
  readonly number: number
}

/** The time for which windows are computed at once: about 0.5 ms of work for days. */
const SPAN_US = 64 * DAY_MS * 1000
/** More than calls and refunds ask for: 5 years. The oldest is dropped. */
const SPANS_MAX = 32
/** More names than there are zones (about 600), if some are spelled in several ways. */
const ZONES_MAX = 1000
/** No name of a zone is longer. */
const ZONE_LENGTH_MAX = 64

/** Returns the window that contains an instant, in microseconds. */
export function calendarWindowAt({ unit, zone }: Calendar, at: number): CalendarWindow {
  return zoneOf(zone)[unit].at(at)
}

/** Whether the runtime knows a zone of this name. Offsets such as +02:00 are no zones. */
export function isTimeZone(zone: string): boolean {
  if (!/^[a-z]/i.test(zone) || zone.length > ZONE_LENGTH_MAX) return false
  try {
    zoneOf(zone)
    return true
  } catch {
    return false
  }
}

/** The names of zones for suggestions; some runtimes list none. */
export function timeZoneNames(): readonly string[] {
  return Intl.supportedValuesOf?.('timeZone') ?? []
}

type Zone = Readonly<Record<CalendarUnit, CalendarWindows>>

const zones = new Map<string, Zone>()

/** Throws a RangeError for an unknown name. */
function zoneOf(name: string): Zone {
  const known = zones.get(name)
  if (known !== undefined) return known
  const offsetAt = offsetsOf(name)
  const windowsOf = (unit: CalendarUnit) => new CalendarWindows(unit, offsetAt)
  const zone = { month: windowsOf('month'), week: windowsOf('week'), day: windowsOf('day') }
  if (zones.size >= ZONES_MAX) zones.clear()
  zones.set(name, zone)
  return zone
}

class CalendarWindows {
  readonly #unit: CalendarUnit
  readonly #offsetAt: (ms: number) => number
  readonly #spans = new Map<number, readonly CalendarWindow[]>()
  #last: CalendarWindow = { start: 0, end: 0, number: 0 }

  constructor(unit: CalendarUnit, offsetAt: (ms: number) => number) {
    this.#unit = unit
    this.#offsetAt = offsetAt
  }

  at(at: number): CalendarWindow {
    const last = this.#last
    if (at >= last.start && at < last.end) return last
    this.#last = find(this.spanAt(at), at)
    return this.#last
  }

  /** Returns all windows of a span, the first and the last one whole. */
  private spanAt(at: number): readonly CalendarWindow[] {
    const span = Math.floor(at / SPAN_US)
    const known = this.#spans.get(span)
    if (known !== undefined) return known
    const windows = this.compute(span * SPAN_US, (span + 1) * SPAN_US)
    const [oldest] = this.#spans.keys()
    if (this.#spans.size >= SPANS_MAX && oldest !== undefined) this.#spans.delete(oldest)
    this.#spans.set(span, windows)
    return windows
  }

  private compute(from: number, to: number): readonly CalendarWindow[] {
    const fromMs = Math.floor(from / 1000)
    const day = Math.floor((fromMs + this.#offsetAt(fromMs)) / DAY_MS)
    const windows: CalendarWindow[] = []
    // One earlier: a clock that goes back over midnight shows the day before once more.
    let number = windowOfDay(this.#unit, day) - 1
    let start = this.edge(number)
    while (start < to) {
      const end = this.edge(number + 1)
      // A zone that crosses the date line may skip a day.
      if (end > from && end > start) windows.push({ start, end, number })
      number += 1
      start = end
    }
    return windows
  }

  /** The first instant at which the first day of a window is reached, in microseconds. */
  private edge(number: number): number {
    // The midnight at which the day would begin in UTC; no offset is as long as a day.
    const midnight = firstDayOf(this.#unit, number) * DAY_MS
    const before = this.#offsetAt(midnight - DAY_MS)
    const after = this.#offsetAt(midnight + DAY_MS)
    if (before === after) return (midnight - before) * 1000
    const change = this.changeAfter(midnight - DAY_MS, midnight + DAY_MS)
    if (midnight - before < change) return (midnight - before) * 1000
    return Math.max(change, midnight - after) * 1000
  }

  /**
   * When the offset changes, in milliseconds. No zone has changed it twice within two days since
   * 1970: the shortest daylight saving time was a week.
   */
  private changeAfter(from: number, to: number): number {
    const before = this.#offsetAt(from)
    let [low, high] = [from, to]
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2)
      if (this.#offsetAt(middle) === before) low = middle
      else high = middle
    }
    return high
  }
}

/** The last window that starts at or before an instant of its span. */
function find(windows: readonly CalendarWindow[], at: number): CalendarWindow {
  let [low, high] = [0, windows.length - 1]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if ((windows[middle]?.start ?? 0) <= at) low = middle
    else high = middle - 1
  }
  const found = windows[low]
  if (found === undefined) throw new RangeError(`No calendar window at ${at}`)
  return found
}

/** The Monday before 1970-01-01, which was a Thursday. */
const FIRST_MONDAY = -3

/** The number of the window that has a day; days are counted from 1970-01-01. */
function windowOfDay(unit: CalendarUnit, day: number): number {
  if (unit === 'day') return day
  if (unit === 'week') return Math.floor((day - FIRST_MONDAY) / 7)
  const date = new Date(day * DAY_MS)
  return (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth()
}

function firstDayOf(unit: CalendarUnit, number: number): number {
  if (unit === 'day') return number
  if (unit === 'week') return number * 7 + FIRST_MONDAY
  return Date.UTC(1970, number, 1) / DAY_MS
}

/**
 * Returns how far the clocks of a zone are ahead of UTC at an instant, both in milliseconds. The
 * text of `format` is read by its digits, because `formatToParts` takes three times as long.
 */
function offsetsOf(zone: string): (ms: number) => number {
  const clock = new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  return (ms) => {
    const numbers = clock.format(ms).match(/\d+/g) ?? []
    const [month = 0, day = 0, year = 0, hour = 0, minute = 0, second = 0] = numbers.map(Number)
    const shown = Date.UTC(year, month - 1, day, hour, minute, second)
    return shown - Math.floor(ms / 1000) * 1000
  }
}

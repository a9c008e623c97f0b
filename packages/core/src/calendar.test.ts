import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { CALENDAR_UNITS, type CalendarUnit, calendarWindowAt, isTimeZone } from './calendar.js'
import { searchCalendarWindow, ZONES } from './calendar.test-helper.js'
import { propertyRuns } from '../../../tools/property-runs.js'

const HOUR_US = 3_600_000_000

const us = (time: string) => Date.parse(time) * 1000
const text = (at: number) => new Date(at / 1000).toISOString().replace(':00.000Z', 'Z')

/** The window of an instant, as texts, and its length in hours. */
function windowAt(unit: CalendarUnit, zone: string, time: string) {
  const { start, end } = calendarWindowAt({ unit, zone }, us(time))
  return { start: text(start), end: text(end), hours: (end - start) / HOUR_US }
}

describe('a calendar window', () => {
  test.each([
    ['UTC', '2026-03-29T00:00Z', '2026-03-30T00:00Z', 24],
    ['Europe/Berlin', '2026-03-28T23:00Z', '2026-03-29T22:00Z', 23],
    ['Europe/Berlin', '2026-10-24T22:00Z', '2026-10-25T23:00Z', 25],
    ['America/New_York', '2026-03-08T05:00Z', '2026-03-09T04:00Z', 23],
    ['America/New_York', '2026-11-01T04:00Z', '2026-11-02T05:00Z', 25],
    ['Asia/Kathmandu', '2026-03-28T18:15Z', '2026-03-29T18:15Z', 24],
    ['Australia/Lord_Howe', '2026-04-04T13:00Z', '2026-04-05T13:30Z', 24.5],
    ['Pacific/Chatham', '2026-04-04T10:15Z', '2026-04-05T11:15Z', 25],
  ])('in %s a day lasts from %s to %s: %s hours', (zone, start, end, hours) => {
    expect(windowAt('day', zone, start)).toEqual({ start, end, hours })
    const last = new Date(Date.parse(end) - 1).toISOString()
    expect(windowAt('day', zone, last)).toEqual({ start, end, hours })
    expect(windowAt('day', zone, end).start).toBe(end)
  })

  test.each([
    ['America/Sao_Paulo', '2018-11-04T03:00Z', '2018-11-05T02:00Z'],
    ['Africa/Cairo', '2026-04-23T22:00Z', '2026-04-24T21:00Z'],
    ['Asia/Beirut', '2026-03-28T22:00Z', '2026-03-29T21:00Z'],
  ])('in %s a day whose midnight does not exist starts at 01:00, at %s', (zone, start, end) => {
    expect(windowAt('day', zone, start)).toEqual({ start, end, hours: 23 })
  })

  test.each([
    ['America/Sao_Paulo', '2018-02-17T02:00Z', '2018-02-18T03:00Z'],
    ['Africa/Cairo', '2026-10-28T21:00Z', '2026-10-29T22:00Z'],
  ])(
    'in %s the hour before midnight that comes twice belongs to the old day, from %s',
    (...day) => {
      const [zone, start, end] = day
      expect(windowAt('day', zone, start)).toEqual({ start, end, hours: 25 })
    },
  )

  test('a day that begins twice begins when midnight is reached for the first time', () => {
    // At 00:01 the clocks of Newfoundland went back to 23:01 of the day before.
    const start = '2010-11-07T02:30Z'
    const day = { start, end: '2010-11-08T03:30Z', hours: 25 }
    expect(windowAt('day', 'America/St_Johns', start)).toEqual(day)
    expect(windowAt('day', 'America/St_Johns', '2010-11-07T02:45Z')).toEqual(day)
    expect(windowAt('day', 'America/St_Johns', '2010-11-07T02:29:59.999Z').end).toBe(start)
  })

  test('a day that a zone skipped has no window', () => {
    const [before, after] = ['2011-12-30T09:59:59.999Z', '2011-12-30T10:00Z']
    const day = { start: '2011-12-29T10:00Z', end: after, hours: 24 }
    expect(windowAt('day', 'Pacific/Apia', before)).toEqual(day)
    expect(windowAt('day', 'Pacific/Apia', after).start).toBe(after)
    expect(windowAt('month', 'Pacific/Apia', after)).toEqual({
      start: '2011-12-01T10:00Z',
      end: '2011-12-31T10:00Z',
      hours: 30 * 24,
    })
  })

  test.each([
    ['2024-12-31T23:59:59.999Z', '2024-12-30T00:00Z'],
    ['2025-01-05T23:59:59.999Z', '2024-12-30T00:00Z'],
    ['2025-01-06T00:00:00.000Z', '2025-01-06T00:00Z'],
    ['1970-01-01T00:00:00.000Z', '1969-12-29T00:00Z'],
  ])('the week of %s starts on Monday, at %s, also across the end of a year', (time, start) => {
    expect(windowAt('week', 'UTC', time)).toMatchObject({ start, hours: 7 * 24 })
  })

  test('a week with a clock change is an hour shorter or longer', () => {
    expect(windowAt('week', 'Europe/Berlin', '2026-03-29T12:00Z')).toEqual({
      start: '2026-03-22T23:00Z',
      end: '2026-03-29T22:00Z',
      hours: 167,
    })
    expect(windowAt('week', 'Europe/Berlin', '2026-10-25T12:00Z').hours).toBe(169)
  })

  test.each([
    ['2024-02-29T23:59:59.999Z', '2024-02-01T00:00Z', '2024-03-01T00:00Z', 29],
    ['2025-02-28T23:59:59.999Z', '2025-02-01T00:00Z', '2025-03-01T00:00Z', 28],
    ['2025-12-31T23:59:59.999Z', '2025-12-01T00:00Z', '2026-01-01T00:00Z', 31],
    ['2000-02-29T12:00:00.000Z', '2000-02-01T00:00Z', '2000-03-01T00:00Z', 29],
  ])('the month of %s lasts from %s to %s', (time, start, end, days) => {
    expect(windowAt('month', 'UTC', time)).toEqual({ start, end, hours: days * 24 })
  })

  test('the months of March and October in Berlin are an hour shorter and longer', () => {
    expect(windowAt('month', 'Europe/Berlin', '2026-03-15T00:00Z')).toEqual({
      start: '2026-02-28T23:00Z',
      end: '2026-03-31T22:00Z',
      hours: 31 * 24 - 1,
    })
    expect(windowAt('month', 'Europe/Berlin', '2026-10-15T00:00Z').hours).toBe(31 * 24 + 1)
  })
})

describe('for every unit and zone', () => {
  const units = fc.constantFrom(...CALENDAR_UNITS)
  const zones = fc.constantFrom(...ZONES)
  /** Until 2060, often near a change of a clock or the end of a month. */
  const times = fc.oneof(
    fc.nat({ max: 90 * 366 * 24 * 60 }).map((minutes) => minutes * (HOUR_US / 60)),
    fc
      .record({ month: fc.nat({ max: 90 * 12 }), hours: fc.integer({ min: -50, max: 50 }) })
      .map(({ month, hours }) => Math.max(0, Date.UTC(1970, month, 1) * 1000 + hours * HOUR_US)),
    fc
      .record({
        year: fc.nat({ max: 90 }),
        hour: fc.nat({ max: 366 * 24 }),
        off: fc.nat({ max: 3 }),
      })
      .map(({ year, hour, off }) => Date.UTC(1970 + year, 0, 1) * 1000 + hour * HOUR_US + off - 1)
      .map((at) => Math.max(0, at)),
  )

  test('the window is the one whose instants show the same day, week or month', () => {
    const property = fc.property(units, zones, times, (unit, zone, at) => {
      const { start, end } = calendarWindowAt({ unit, zone }, at)
      expect({ start, end }).toEqual(searchCalendarWindow({ unit, zone }, at))
    })
    fc.assert(property, { numRuns: propertyRuns(1500) })
  })

  test('windows follow each other without gaps, with rising numbers', () => {
    const property = fc.property(units, zones, times, (unit, zone, at) => {
      let window = calendarWindowAt({ unit, zone }, at)
      for (let i = 0; i < 40; i++) {
        const next = calendarWindowAt({ unit, zone }, window.end)
        expect(next.start).toBe(window.end)
        expect(next.end).toBeGreaterThan(next.start)
        const isSkipped = zone === 'Pacific/Apia' && text(next.start) === '2011-12-30T10:00Z'
        expect(next.number).toBe(window.number + (isSkipped && unit === 'day' ? 2 : 1))
        window = next
      }
    })
    fc.assert(property, { numRuns: propertyRuns(100) })
  })
})

describe('a name of a time zone', () => {
  test.each(['UTC', 'Europe/Berlin', 'Etc/GMT+5', 'US/Eastern', 'europe/berlin'])(
    '%s is known',
    (zone) => {
      expect(isTimeZone(zone)).toBe(true)
    },
  )

  test.each(['', 'Berlin', 'Europe/Munich', '+02:00', '-05', ' UTC', 'x'.repeat(1000)])(
    '"%s" is not known',
    (zone) => {
      expect(isTimeZone(zone)).toBe(false)
    },
  )
})

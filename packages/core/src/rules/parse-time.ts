/** Parses an instant: a date, a time and a time zone, which is required. */
import { reportAt, readText, type Located } from './reader.js'

const SHAPE =
  /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,3}))?)?(?:Z|([+-])(\d{2}):(\d{2}))$/
const ACCEPTED = 'a date and time with its zone, such as 2026-12-31T18:00:00Z or ...T18:00:00+01:00'

/** Milliseconds since 1970. */
export function readTime(located: Located): number | undefined {
  const text = readText(located, { accepted: ACCEPTED, most: Number.POSITIVE_INFINITY })
  if (text === undefined) return undefined
  return parseTime(text) ?? reportAt(located, 'bad-time', { accepted: ACCEPTED })
}

function parseTime(text: string): number | undefined {
  const shape = SHAPE.exec(text)
  if (shape === null) return undefined
  const number = (group: number) => Number(shape[group] ?? 0)
  const [year, month, day] = [number(1), number(2), number(3)]
  const [hour, minute, second] = [number(4), number(5), number(6)]
  const [zoneHour, zoneMinute] = [number(9), number(10)]
  const isTime = hour < 24 && minute < 60 && second < 60 && zoneHour < 24 && zoneMinute < 60
  if (!isTime || year < 1970) return undefined
  const date = new Date(Date.UTC(year, month - 1, day))
  // Refuses 30 February, which `Date` would read as 2 March.
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined
  const milliseconds = Number((shape[7] ?? '').padEnd(3, '0'))
  const local = date.getTime() + ((hour * 60 + minute) * 60 + second) * 1000 + milliseconds
  const zoneMs = (zoneHour * 60 + zoneMinute) * 60_000
  return shape[8] === '-' ? local + zoneMs : local - zoneMs
}

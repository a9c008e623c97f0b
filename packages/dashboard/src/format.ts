/** Formats numbers, durations and times, and makes untrusted text safe to display. */
import type { SeriesView } from '@sluice/client'

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

const TEXT_LENGTH_MAX = 120
const integerFormat = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const NO_VALUE = '–'

/** 12,345 */
export const count = (value: number): string =>
  Number.isFinite(value) ? integerFormat.format(value) : NO_VALUE

/** 999, 12.3k, 4.5M: at most four digits. */
export function compact(value: number): string {
  if (!Number.isFinite(value)) return NO_VALUE
  const size = Math.abs(value)
  if (size < 9999.5) return count(value)
  const [unit, mark] = size < 999_500 ? [1e3, 'k'] : size < 999.5e6 ? [1e6, 'M'] : [1e9, 'G']
  return `${digits(value / unit, 3)}${mark}`
}

/** A rate per second: 0, 0.4, 12.3, 1,234. */
export function rate(value: number): string {
  if (!Number.isFinite(value)) return NO_VALUE
  if (value === 0) return '0'
  if (value < 0.1) return '<0.1'
  return value < 99.95 ? digits(value, 3, 1) : compact(Math.round(value))
}

/** 0 %, <0.1 %, 4.2 %, 87 %. A share below 1 is never shown as 100 %. */
export function percent(share: number): string {
  if (!Number.isFinite(share)) return NO_VALUE
  const value = share * 100
  if (value === 0) return '0 %'
  if (value < 0.1) return '<0.1 %'
  if (value < 100 && value >= 99.5) return '>99 %'
  return `${value < 9.95 ? digits(value, 2) : integerFormat.format(value)} %`
}

/** 40 µs, 1.2 ms, 3.4 s, 5 min, 1 h */
export function millis(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return NO_VALUE
  const size = Math.abs(ms)
  if (size === 0) return '0 ms'
  if (size < 0.9995) return `${integerFormat.format(ms * 1000)} µs`
  if (size < 999.5) return `${digits(ms, size < 9.95 ? 2 : 3)} ms`
  if (size < 2 * MINUTE) return `${digits(ms / 1000, 2)} s`
  return `${ms < 0 ? '-' : ''}${duration(Math.round(size / SECOND) * SECOND)}`
}

/** 45 s, 3 min, 2 h 5 min, 4 d */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return NO_VALUE
  const span = Math.max(0, ms)
  if (span < MINUTE) return `${Math.floor(span / SECOND)} s`
  if (span < HOUR) return `${Math.floor(span / MINUTE)} min`
  if (span < DAY) return twoUnits(span, HOUR, 'h', MINUTE, 'min')
  return twoUnits(span, DAY, 'd', HOUR, 'h')
}

function twoUnits(
  span: number,
  big: number,
  bigName: string,
  small: number,
  smallName: string,
): string {
  const rest = Math.floor((span % big) / small)
  return `${Math.floor(span / big)} ${bigName}${rest === 0 ? '' : ` ${rest} ${smallName}`}`
}

/** 512 B, 1.2 kB, 3.4 MB */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NO_VALUE
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']
  let size = value
  let unit = 0
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1000
    unit++
  }
  return `${unit === 0 ? integerFormat.format(size) : digits(size, 2)} ${units[unit]}`
}

/** Milliseconds since 1970; NaN for an invalid time. */
export const timeOf = (at: string | number): number =>
  typeof at === 'number' ? at : Date.parse(at)

/** `3 min ago`. Clocks differ: a time in the future is `just now`. */
export function ago(at: string | number, nowMs: number): string {
  const age = nowMs - timeOf(at)
  if (!Number.isFinite(age)) return NO_VALUE
  return age < 3 * SECOND ? 'just now' : `${duration(age)} ago`
}

const timeFormat = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' })
const minuteFormat = new Intl.DateTimeFormat('en-GB', { timeStyle: 'short' })
const dateFormat = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })

const formatTime = (format: Intl.DateTimeFormat, at: string | number): string => {
  const ms = timeOf(at)
  // 8.64e15 is the largest time value of a Date.
  return Number.isFinite(ms) && Math.abs(ms) <= 8.64e15 ? format.format(ms) : NO_VALUE
}

/** 14:03:27 */
export const clockTime = (at: string | number): string => formatTime(timeFormat, at)
/** 14:03 */
export const clockMinute = (at: string | number): string => formatTime(minuteFormat, at)
/** 3 Mar 2026, 14:03:27 */
export const dateTime = (at: string | number): string => formatTime(dateFormat, at)

function digits(value: number, significant: number, fraction?: number): string {
  const format =
    fraction === undefined
      ? { maximumSignificantDigits: significant }
      : { maximumFractionDigits: fraction }
  return new Intl.NumberFormat('en', format).format(value)
}

export const sum = (values: readonly number[]): number =>
  values.reduce((total, value) => total + value, 0)

export type SeriesField = 'allowed' | 'refused' | 'shadowRefused' | 'degraded'

/** The average rate per second over the last `seconds` of a series. */
export function perSecond(series: SeriesView, field: SeriesField, seconds: number): number {
  const steps = Math.max(1, Math.round((seconds * 1000) / series.stepMs))
  const last = series[field].slice(-steps)
  return last.length === 0 ? 0 : sum(last) / ((last.length * series.stepMs) / 1000)
}

/** Each step as a rate per second. */
export const rates = (series: SeriesView, field: SeriesField): readonly number[] =>
  series[field].map((value) => value / (series.stepMs / 1000))

type Decisions = Pick<SeriesView, 'allowed' | 'refused' | 'shadowRefused'>

/** The decisions of each step. A request that only a shadow rule would refuse is counted apart. */
export const decisionsPerStep = ({ allowed, refused, shadowRefused }: Decisions): number[] =>
  allowed.map((value, at) => value + (refused[at] ?? 0) + (shadowRefused[at] ?? 0))

/** Decisions per second over the last `seconds` of a series. */
export const decisionRate = (series: SeriesView, seconds: number): number =>
  (['allowed', 'refused', 'shadowRefused'] as const).reduce(
    (total, field) => total + perSecond(series, field, seconds),
    0,
  )

/** Share of refused requests; 0 without requests. */
export function refusedShare(series: SeriesView): number {
  const total = sum(decisionsPerStep(series))
  return total === 0 ? 0 : sum(series.refused) / total
}

/** Control and format characters, which are invisible or reorder the text around them. */
const INVISIBLE = /[\p{Cc}\p{Cf}\u2028\u2029]/gu
/** Spaces at either end: browsers collapse them, and `a ` is another caller than `a`. */
const OUTER_SPACES = /^ +| +$/g

/** Truncates text and replaces invisible characters by their code points. Not HTML-escaped. */
export function visibleText(text: string, max: number = TEXT_LENGTH_MAX): string {
  // Truncates first, so that long text is cheap, and never inside a surrogate pair.
  const head = text.slice(0, max).replace(/[\ud800-\udbff]$/, '')
  const isCut = head.length < text.length
  const visible = `${head}${isCut ? '…' : ''}`.replace(INVISIBLE, codePointText)
  return visible.replace(OUTER_SPACES, (spaces) => codePointText(' ').repeat(spaces.length))
}

function codePointText(character: string): string {
  const code = character.codePointAt(0) ?? 0
  return `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`
}

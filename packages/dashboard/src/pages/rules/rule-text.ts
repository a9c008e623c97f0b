/** Rules in a few words, from documents as people wrote them: nothing in them is certain. */
import { count } from '../../format.js'

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Any value as one word. */
export function wordOf(value: unknown): string {
  if (typeof value === 'string') return value
  return JSON.stringify(value) ?? ''
}

const UNITS: ReadonlyMap<string, string> = new Map([
  ['1s', 'second'],
  ['1m', 'minute'],
  ['1h', 'hour'],
  ['1d', 'day'],
])

/** `1,000/hour sliding-window-counter`. */
export function limitText(limit: unknown): string {
  if (!isRecord(limit)) return wordOf(limit)
  const { algorithm, max, window, burst, queue } = limit
  const most = typeof max === 'number' ? count(max) : wordOf(max)
  const span = UNITS.get(wordOf(window)) ?? wordOf(window)
  const others = Object.entries({ burst, queue }).flatMap(([field, value]) =>
    value === undefined ? [] : `${field} ${wordOf(value)}`,
  )
  const by = algorithm === undefined || algorithm === 'token-bucket' ? [] : wordOf(algorithm)
  return [`${most}/${span}`, by, others].flat().join(' ')
}

export function limitsText(limits: unknown): string {
  if (!Array.isArray(limits)) return '–'
  return limits.length === 0 ? 'no limit' : limits.map(limitText).join(' and ')
}

/** What a rule counts by: a list, one name, or nothing. */
export function byOf(by: unknown): readonly string[] {
  if (typeof by === 'string') return [by]
  return Array.isArray(by) ? by.map(wordOf) : []
}

export function byText(by: unknown): string {
  const names = byOf(by)
  return names.length === 0 ? 'everybody' : names.join(', ')
}

/** `GET, POST /v1/orders where plan is free or pro`. */
export function matchText(match: unknown): string {
  if (!isRecord(match)) return 'every call'
  const { method, path, where } = match
  const conditions = isRecord(where)
    ? Object.entries(where).map(([name, value]) => `${name} is ${valueText(value, ' or ')}`)
    : []
  const words = [
    method === undefined ? [] : valueText(method, ', '),
    path === undefined ? [] : wordOf(path),
    conditions.length === 0 ? [] : `where ${conditions.join(' and ')}`,
  ]
  return words.flat().join(' ') || 'every call'
}

function valueText(value: unknown, between: string): string {
  if (value === null) return 'absent'
  return Array.isArray(value) ? value.map(wordOf).join(between) : wordOf(value)
}

/** `user=u1, plan=pro`. */
export function callerText(caller: Readonly<Record<string, string>>): string {
  const parts = Object.entries(caller).map(([name, value]) => `${name}=${value}`)
  return parts.length === 0 ? 'everybody' : parts.join(', ')
}

const SPANS: readonly (readonly [number, string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1000, 's'],
]

/** How long a window is, exactly: `1 h`, `90 s`. */
export function spanText(ms: number): string {
  const [unit, name] = SPANS.find(([each]) => ms >= each && ms % each === 0) ?? [1, 'ms']
  return `${count(ms / unit)} ${name}`
}

/** What to wait, rounded up: whoever comes then is not too early. */
export function waitText(ms: number): string {
  if (ms < 1000) return `${Math.ceil(ms)} ms`
  const seconds = ms / 1000
  if (seconds < 10) return `${Math.ceil(seconds * 10) / 10} s`
  if (seconds < 120) return `${Math.ceil(seconds)} s`
  if (seconds < 7200) return `${Math.ceil(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.ceil(seconds / 3600)} h` : `${Math.ceil(seconds / 86_400)} d`
}

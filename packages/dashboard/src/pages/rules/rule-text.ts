/** Short texts about rules. The documents are not validated, so every field can be of any type. */
import { count } from '../../format.js'

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Any value as text; JSON unless it is a string. */
export function valueToText(value: unknown): string {
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
  if (!isRecord(limit)) return valueToText(limit)
  const { algorithm, max, window, burst, queue } = limit
  const maxText = typeof max === 'number' ? count(max) : valueToText(max)
  const span = UNITS.get(valueToText(window)) ?? valueToText(window)
  const options = Object.entries({ burst, queue }).flatMap(([field, value]) =>
    value === undefined ? [] : `${field} ${valueToText(value)}`,
  )
  const by = algorithm === undefined || algorithm === 'token-bucket' ? [] : valueToText(algorithm)
  return [`${maxText}/${span}`, by, options].flat().join(' ')
}

export function limitsText(limits: unknown): string {
  if (!Array.isArray(limits)) return '–'
  return limits.length === 0 ? 'no limit' : limits.map(limitText).join(' and ')
}

/** Tiers listed by name; a rule has up to a hundred. */
const TIERS_NAMED = 3

/** `custom limits for plans pro and partner`; undefined: there are no tiers. */
function tiersText(tiers: unknown): string | undefined {
  const [attribute, values] = isRecord(tiers) ? (Object.entries(tiers)[0] ?? []) : []
  const names = isRecord(values) ? Object.keys(values) : []
  if (attribute === undefined || names.length === 0) return undefined
  if (names.length === 1) return `custom limits for ${attribute} ${names[0]}`
  const isMany = names.length > TIERS_NAMED
  const last = isMany ? `${names.length - TIERS_NAMED} more` : names.at(-1)
  const first = names.slice(0, isMany ? TIERS_NAMED : -1).join(', ')
  return `custom limits for ${attribute === 'plan' ? 'plans' : attribute} ${first} and ${last}`
}

/** Limits of a rule or a candidate: `10/second, custom limits for plan pro`. */
export function ruleLimitsText(source: Readonly<Record<string, unknown>>): string {
  return [limitsText(source['limits']), tiersText(source['tiers']) ?? []].flat().join(', ')
}

/** The same with the limits of each tier: `10/second; plan pro: 40/second burst 80`. */
export function allLimitsText(source: Readonly<Record<string, unknown>>): string {
  const [attribute, values] = isRecord(source['tiers'])
    ? (Object.entries(source['tiers'])[0] ?? [])
    : []
  const tiers = isRecord(values)
    ? Object.entries(values).map(([name, limits]) => `${attribute} ${name}: ${limitsText(limits)}`)
    : []
  return [limitsText(source['limits']), ...tiers].join('; ')
}

/** The attributes that a rule counts by, given as a list, as one name or not at all. */
export function countedAttributes(by: unknown): readonly string[] {
  if (typeof by === 'string') return [by]
  return Array.isArray(by) ? by.map(valueToText) : []
}

export function byText(by: unknown): string {
  const names = countedAttributes(by)
  return names.length === 0 ? 'all callers together' : names.join(', ')
}

/** `GET, POST /v1/orders where plan is free or pro and ip is not 10.0.0.0/8`. */
export function matchText(match: unknown): string {
  if (!isRecord(match)) return 'every request'
  const { method, path, where } = match
  const conditions = isRecord(where)
    ? Object.entries(where).map(([name, value]) =>
        isRecord(value)
          ? `${name} is not ${valueText(value['not'], ' or ')}`
          : `${name} is ${valueText(value, ' or ')}`,
      )
    : []
  const words = [
    method === undefined ? [] : valueText(method, ', '),
    path === undefined ? [] : valueToText(path),
    conditions.length === 0 ? [] : `where ${conditions.join(' and ')}`,
  ]
  return words.flat().join(' ') || 'every request'
}

function valueText(value: unknown, separator: string): string {
  if (value === null) return 'absent'
  return Array.isArray(value) ? value.map(valueToText).join(separator) : valueToText(value)
}

/** What a rule does when the store does not answer: `fail open`, `fail closed`, `fail local`. */
export function storeFailureText(posture: unknown): string {
  if (isRecord(posture)) return `fail local, ${valueToText(posture['local'])} times the limit`
  return `fail ${valueToText(posture ?? 'local')}`
}

/** `user=u1, plan=pro`. */
export function callerText(caller: Readonly<Record<string, string>>): string {
  const parts = Object.entries(caller).map(([name, value]) => `${name}=${value}`)
  return parts.length === 0 ? 'all callers' : parts.join(', ')
}

const SPANS: readonly (readonly [number, string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1000, 's'],
]

/** The exact length of a window: `1 h`, `90 s`. */
export function spanText(ms: number): string {
  const [unit, name] = SPANS.find(([each]) => ms >= each && ms % each === 0) ?? [1, 'ms']
  return `${count(ms / unit)} ${name}`
}

/** A wait, rounded up, so that a caller who waits this long is not too early. */
export function waitText(ms: number): string {
  if (ms < 1000) return `${Math.ceil(ms)} ms`
  const seconds = ms / 1000
  if (seconds < 10) return `${Math.ceil(seconds * 10) / 10} s`
  if (seconds < 120) return `${Math.ceil(seconds)} s`
  if (seconds < 7200) return `${Math.ceil(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.ceil(seconds / 3600)} h` : `${Math.ceil(seconds / 86_400)} d`
}

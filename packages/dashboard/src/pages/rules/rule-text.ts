/** Rules in a few words, from documents as people wrote them: nothing in them is certain. */
import { count } from '../../format.js'

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Any value as one word. */
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

/** Of more, only how many: a rule has up to a hundred tiers. */
const TIERS_NAMED = 3

/** `plans pro and partner have their own`; undefined: there are no tiers. */
function tiersText(tiers: unknown): string | undefined {
  const [attribute, values] = isRecord(tiers) ? (Object.entries(tiers)[0] ?? []) : []
  const names = isRecord(values) ? Object.keys(values) : []
  if (attribute === undefined || names.length === 0) return undefined
  if (names.length === 1) return `${attribute} ${names[0]} has its own`
  const isMany = names.length > TIERS_NAMED
  const last = isMany ? `${names.length - TIERS_NAMED} more` : names.at(-1)
  const first = names.slice(0, isMany ? TIERS_NAMED : -1).join(', ')
  return `${attribute === 'plan' ? 'plans' : attribute} ${first} and ${last} have their own`
}

/** Limits of a rule or a candidate: `10/second, plan pro has its own`. */
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

/** What a rule counts by: a list, one name, or nothing. */
export function countedAttributes(by: unknown): readonly string[] {
  if (typeof by === 'string') return [by]
  return Array.isArray(by) ? by.map(valueToText) : []
}

export function byText(by: unknown): string {
  const names = countedAttributes(by)
  return names.length === 0 ? 'everybody' : names.join(', ')
}

/** `GET, POST /v1/orders where plan is free or pro and ip is not 10.0.0.0/8`. */
export function matchText(match: unknown): string {
  if (!isRecord(match)) return 'every call'
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
  return words.flat().join(' ') || 'every call'
}

function valueText(value: unknown, separator: string): string {
  if (value === null) return 'absent'
  return Array.isArray(value) ? value.map(valueToText).join(separator) : valueToText(value)
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

/** Describes rules in a few words. The documents are not validated: a field can have any type. */

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Any value as text: JSON unless it is a string, and empty for undefined. */
export function valueText(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
}

const UNITS: ReadonlyMap<unknown, string> = new Map([
  ['1s', 'second'],
  ['1m', 'minute'],
  ['1h', 'hour'],
  ['1d', 'day'],
  ['day', 'calendar day'],
  ['week', 'calendar week'],
  ['month', 'calendar month'],
])

/** `1000/hour sliding-window-counter burst 80 hourly`, `20 in flight`. */
function limitText(limit: unknown): string {
  if (!isRecord(limit)) return valueText(limit)
  const { algorithm, max, window, name, ...rest } = limit
  const isPlaces = algorithm === 'concurrency'
  const words = [
    isPlaces
      ? `${valueText(max)} in flight`
      : `${valueText(max)}/${UNITS.get(window) ?? valueText(window)}`,
    isPlaces || algorithm === undefined || algorithm === 'token-bucket' ? [] : valueText(algorithm),
    Object.entries(rest).map(([field, value]) => `${field} ${valueText(value)}`),
    name === undefined ? [] : valueText(name),
  ]
  return words.flat().join(' ')
}

/** Returns an empty text for a value that is not a list. */
export function limitsText(limits: unknown): string {
  if (!Array.isArray(limits)) return ''
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
export function ruleLimitsText(rule: Readonly<Record<string, unknown>>): string {
  return [limitsText(rule['limits']), tiersText(rule['tiers']) ?? []].flat().join(', ')
}

/** The same with the limits of each tier: `10/second; plan pro: 40/second burst 80`. */
export function allLimitsText(rule: Readonly<Record<string, unknown>>): string {
  const [attribute, values] = isRecord(rule['tiers'])
    ? (Object.entries(rule['tiers'])[0] ?? [])
    : []
  const tiers = isRecord(values)
    ? Object.entries(values).map(([name, limits]) => `${attribute} ${name}: ${limitsText(limits)}`)
    : []
  return [limitsText(rule['limits']), ...tiers].join('; ')
}

/** `critical 20%, writes 10%`; undefined: the rule keeps nothing free. */
export function headroomText(headroom: unknown): string | undefined {
  if (!isRecord(headroom)) return undefined
  return Object.entries(headroom)
    .map(([priority, share]) => `${priority} ${shareText(share)}`)
    .join(', ')
}

function shareText(share: unknown): string {
  return typeof share === 'number' ? `${Math.round(share * 10_000) / 100}%` : valueText(share)
}

/** The attributes that a rule counts by, given as a list, as one name or not at all. */
export function countedAttributes(by: unknown): readonly string[] {
  if (typeof by === 'string') return [by]
  return Array.isArray(by) ? by.map(valueText) : []
}

export function byText(by: unknown): string {
  const names = countedAttributes(by)
  return names.length === 0 ? 'all callers together' : names.join(', ')
}

/** `GET, POST /v1/orders where plan is free or pro and ip is not 10.0.0.0/8`. */
export function matchText(match: unknown): string {
  if (!isRecord(match)) return 'every call'
  const { method, path, where } = match
  const conditions = isRecord(where)
    ? Object.entries(where).map(([name, value]) =>
        isRecord(value)
          ? `${name} is not ${valuesText(value['not'], ' or ')}`
          : `${name} is ${valuesText(value, ' or ')}`,
      )
    : []
  const words = [
    method === undefined ? [] : valuesText(method, ', '),
    path === undefined ? [] : valueText(path),
    conditions.length === 0 ? [] : `where ${conditions.join(' and ')}`,
  ]
  return words.flat().join(' ') || 'every call'
}

function valuesText(value: unknown, separator: string): string {
  if (value === null) return 'absent'
  return Array.isArray(value) ? value.map(valueText).join(separator) : valueText(value)
}

/** `user=u1 plan=pro`, as commands accept it. */
export function callerText(caller: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(caller).map(([name, value]) => `${name}=${value}`)
  return pairs.length === 0 ? 'all callers' : pairs.join(' ')
}

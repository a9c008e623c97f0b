/** Rules in a few words, from documents as people wrote them: nothing in them is certain. */
import { durationText } from '@sluice/core'
import { isRecord, plainText } from './guards.js'

/** `1000/1h sliding-window-counter hourly`. */
function limitText(limit: unknown): string {
  if (!isRecord(limit)) return plainText(limit)
  const { algorithm, max, window, name, ...rest } = limit
  const others = Object.entries(rest).map(([field, value]) => `${field} ${plainText(value)}`)
  const words = [
    `${plainText(max)}/${plainText(window)}`,
    algorithm === undefined || algorithm === 'token-bucket' ? [] : plainText(algorithm),
    others,
    name === undefined ? [] : plainText(name),
  ]
  return words.flat().join(' ')
}

export function limitsText(limits: unknown): string {
  if (!Array.isArray(limits)) return ''
  return limits.length === 0 ? 'no limit' : limits.map(limitText).join(', ')
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
export function ruleLimitsText(rule: Readonly<Record<string, unknown>>): string {
  return [limitsText(rule['limits']), tiersText(rule['tiers']) ?? []].flat().join(', ')
}

/** What a rule counts by, as a document may have it: a list, one name, or nothing. */
export function byOf(by: unknown): readonly string[] {
  if (typeof by === 'string') return [by]
  return Array.isArray(by) ? by.map(plainText) : []
}

export function byText(by: unknown): string {
  const names = byOf(by)
  return names.length === 0 ? 'everybody' : names.join(', ')
}

/** `GET,POST /v1/orders plan=free|pro user=none ip!=10.0.0.0/8`. */
export function matchText(match: unknown): string {
  if (!isRecord(match)) return 'every call'
  const { method, path, where } = match
  const values = isRecord(where)
    ? Object.entries(where).map(([name, value]) =>
        isRecord(value) ? `${name}!=${valueText(value['not'])}` : `${name}=${valueText(value)}`,
      )
    : []
  const words = [method === undefined ? [] : valueText(method, ','), path ?? [], values]
  return words.flat().map(plainText).join(' ') || 'every call'
}

function valueText(value: unknown, between = '|'): string {
  if (value === null) return 'none'
  return Array.isArray(value) ? value.map(plainText).join(between) : plainText(value)
}

export function callerText(caller: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(caller).map(([name, value]) => `${name}=${value}`)
  return pairs.length === 0 ? 'everybody' : pairs.join(' ')
}

/** `2026-01-02T03:04:05.678Z` to the second, which is what fits and what people look for. */
export function instantText(iso: string | undefined): string {
  return iso?.replace(/\.\d+Z$/, 'Z') ?? ''
}

/** How long something lasts or is ago: no second that has not passed yet. */
export function elapsedText(ms: number): string {
  return durationText(Math.max(0, ms), 'down')
}

/** How long somebody has to wait: not a moment less. */
export function timeText(ms: number | null): string {
  return ms === null ? 'never' : durationText(ms, 'up')
}

/** How far a clock is off: `+0.4 ms`, `-1 h`. */
export function offsetText(ms: number): string {
  return `${ms > 0 ? '+' : ''}${durationText(ms)}`
}

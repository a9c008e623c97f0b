/**
 * The stored form of the hours at the limit: JSON with one list for each caller. Plan and attribute
 * values are in the lists only if names are stored in plain text; otherwise they are empty there,
 * and the names are stored encrypted or not at all.
 */
import { formatHash, type Hash64, show } from '@sluice/core'
import type { NameProtection } from '../name-protection.js'
import { TABLE_SLOTS } from './caller-table.js'
import { HOURS, type HoursAtLimit, hourOf, shiftHours } from './hours-at-limit.js'
import { BY_MAX, joinLabel, splitLabel } from './caller-label.js'
import type { TrackedRule } from './rule-callers.js'

interface StoredRule {
  readonly rule: string
  readonly by: readonly string[]
  readonly callers: readonly StoredCaller[]
}

interface StoredCaller {
  readonly hi: number
  readonly lo: number
  /** Relative to the current hour. */
  readonly hours: number
  readonly lastMs: number
  /** Undefined if it was not stored; the caller's next decision provides it. */
  readonly name: string | undefined
}

const FORMAT = 1
/** Eight times the length of a full table. */
const TEXT_LENGTH_MAX = 8 * 1024 * 1024
/** Also the paths of Envoy's limits, and their keys. */
const ID = /^[\x21-\x7e]{1,256}$/
const ATTRIBUTE = /^[\x21-\x7e]{1,72}$/
const HASH = /^[0-9a-f]{16}$/
/** Hash, hours, time and plan; attribute values follow. */
const FIELDS_MIN = 4

interface EncodedRule {
  readonly rule: string
  readonly by: readonly string[]
  readonly callers: unknown[][]
}

/** The labels of the callers of each rule, in their order; null for none. */
type SealedNames = readonly (readonly (string | null)[])[]

export function encodeHours(
  rules: readonly TrackedRule[],
  hours: HoursAtLimit,
  { form, sealer }: NameProtection,
): string {
  const { table } = hours
  const written = new Map<number, EncodedRule & { readonly names: (string | null)[] }>()
  table.each((slot) => {
    const number = table.ruleAt(slot)
    const { rule = '', by = [] } = rules[number] ?? {}
    const ofRule = written.get(number) ?? { rule, by, callers: [], names: [] }
    written.set(number, ofRule)
    const name = table.labelAt(slot)
    const { plan, values } = splitLabel(form === 'clear' && name !== undefined ? name : '')
    const hash = formatHash({ hi: table.hiAt(slot), lo: table.loAt(slot) })
    ofRule.callers.push([hash, hours.hoursAt(slot), table.lastMsAt(slot), plan, ...values])
    ofRule.names.push(name ?? null)
  })
  const kept = [...written.values()].map(({ names: _names, ...ofRule }) => ofRule)
  const document = { format: FORMAT, hour: hours.hour, rules: kept }
  if (form !== 'sealed') return `${JSON.stringify(document)}\n`
  const names: SealedNames = [...written.values()].map((ofRule) => ofRule.names)
  const sealedNames = sealer.seal(JSON.stringify(names), contextOf(kept))
  return `${JSON.stringify({ ...document, sealedNames })}\n`
}

/** Binds the names to their rows, so that none can be moved to another row. */
function contextOf(
  rules: readonly Readonly<{ rule: unknown; callers: readonly unknown[] }>[],
): string {
  const rows = rules.map(({ rule, callers }) => [rule, ...callers.map(hashIn)].join(' '))
  return ['hours', ...rows].join('\n')
}

function hashIn(caller: unknown): string {
  return Array.isArray(caller) ? String(caller[0]) : ''
}

/** Leaves out hours that have passed. Without `protection` names are not decrypted. */
export function decodeHours(
  text: string,
  nowMs: number,
  protection?: NameProtection,
): readonly StoredRule[] {
  if (text.length > TEXT_LENGTH_MAX) refuse('text', `${text.length} characters`, 'at most 8 MiB')
  const { format, hour, rules, sealedNames } = fieldsOf(JSON.parse(text), 'text')
  if (format !== FORMAT) refuse('format', format, FORMAT)
  if (!isWhole(hour)) return refuse('hour', hour, 'the hours since 1970')
  // A file from the future, of a clock that was ahead, counts as current.
  const elapsedHours = Math.max(0, hourOf(nowMs) - hour)
  const names = openNames(sealedNames, rules, protection)
  const read = listOf(rules, 'rules').map((rule, place) =>
    readRule(rule, `rules[${place}]`, { elapsedHours, nowMs, names: names[place] ?? [] }),
  )
  const count = read.reduce((sum, { callers }) => sum + callers.length, 0)
  if (count > TABLE_SLOTS) refuse('rules', `${count} callers`, `at most ${TABLE_SLOTS}`)
  return read
}

/** Whether a text contains names in plain text, as earlier releases wrote them. */
export function hasClearNames(text: string): boolean {
  const rules = decodeHours(text, 0)
  return rules.some(({ callers }) => callers.some(({ name }) => name !== undefined))
}

/** Decrypts the names. Authenticated: a process with the same secret wrote them for these rows. */
function openNames(
  sealed: unknown,
  rules: unknown,
  protection: NameProtection | undefined,
): SealedNames {
  if (typeof sealed !== 'string' || !Array.isArray(rules)) return []
  const rows = rules.map((rule) => {
    const { rule: id, callers } = fieldsOf(rule, 'rules')
    return { rule: id, callers: listOf(callers, 'callers') }
  })
  const text = protection?.sealer.open(sealed, contextOf(rows))
  return text === undefined ? [] : (JSON.parse(text) as SealedNames)
}

/** Parses 16 hex digits; undefined for anything else. */
export function parseHash(text: string): Hash64 | undefined {
  if (!HASH.test(text)) return undefined
  return {
    hi: Number.parseInt(text.slice(0, 8), 16) | 0,
    lo: Number.parseInt(text.slice(8), 16) | 0,
  }
}

/** The context for reading the rows of one rule. */
interface RowContext {
  readonly elapsedHours: number
  readonly nowMs: number
  readonly names: readonly (string | null)[]
}

function readRule(value: unknown, place: string, context: RowContext): StoredRule {
  const { rule, by, callers } = fieldsOf(value, place)
  if (typeof rule !== 'string' || !ID.test(rule)) {
    return refuse(`${place}.rule`, rule, 'the id of a rule')
  }
  const names = listOf(by, `${place}.by`).filter(isAttribute)
  if (names.length !== listOf(by, place).length || names.length > BY_MAX) {
    return refuse(`${place}.by`, JSON.stringify(by), `up to ${BY_MAX} names of attributes`)
  }
  const read = listOf(callers, `${place}.callers`).map((caller, at) =>
    readCaller(caller, `${place}.callers[${at}]`, context, context.names[at] ?? undefined),
  )
  return { rule, by: names, callers: read.filter(({ hours }) => hours !== 0) }
}

function readCaller(
  value: unknown,
  place: string,
  { elapsedHours, nowMs }: RowContext,
  opened: string | undefined,
): StoredCaller {
  const fields = listOf(value, place)
  const [hash, hours, lastMs, ...texts] = fields
  if (fields.length < FIELDS_MIN || fields.length > FIELDS_MIN + BY_MAX) {
    return refuse(place, `${fields.length} fields`, `${FIELDS_MIN} to ${FIELDS_MIN + BY_MAX}`)
  }
  const caller = typeof hash === 'string' ? parseHash(hash) : undefined
  if (caller === undefined) return refuse(place, hash, '16 hex digits')
  if (!isWhole(hours) || hours < 1 || hours >= 2 ** HOURS) {
    return refuse(place, hours, `${HOURS} bits that are not all 0`)
  }
  if (!isWhole(lastMs)) return refuse(place, lastMs, 'milliseconds since 1970')
  const [plan = '', ...values] = texts.filter((text) => typeof text === 'string')
  if (values.length + 1 !== texts.length) return refuse(place, 'no text', 'a plan and values')
  const isNamed = plan !== '' || values.some((text) => text !== '')
  return {
    ...caller,
    hours: shiftHours(hours, elapsedHours),
    lastMs: Math.min(lastMs, nowMs),
    name: isNamed ? joinLabel(plan, values) : opened,
  }
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

function isAttribute(value: unknown): value is string {
  return typeof value === 'string' && ATTRIBUTE.test(value)
}

function fieldsOf(value: unknown, place: string): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value }
  return refuse(place, value, 'an object')
}

function listOf(value: unknown, place: string): readonly unknown[] {
  return Array.isArray(value) ? value : refuse(place, value, 'a list')
}

function refuse(place: string, found: unknown, accepted: string | number): never {
  throw new Error(`caller hours, ${place}: found ${show(found)}; accepted: ${accepted}`)
}

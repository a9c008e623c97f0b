/** The hours of callers as they are kept over a restart: JSON, one list for each caller. */
import { formatHash, show } from '@sluice/core'
import { TABLE_SLOTS } from './caller-table.js'
import { HOURS, type HourCallers, hourOf, shiftHours } from './hours.js'
import { BY_MAX, joinName, splitName } from './names.js'
import type { TrackedRule } from './rule-callers.js'

interface KeptRule {
  readonly rule: string
  readonly by: readonly string[]
  readonly callers: readonly KeptCaller[]
}

interface KeptCaller {
  readonly hi: number
  readonly lo: number
  /** As of the present hour. */
  readonly hours: number
  readonly lastMs: number
  readonly name: string
}

const FORMAT = 1
/** Eight times what a full table takes. */
const TEXT_LENGTH_MAX = 8 * 1024 * 1024
const ID = /^[a-z0-9-]{1,64}$/
const ATTRIBUTE = /^[a-z][a-z0-9_.-]{0,63}$/
const HASH = /^[0-9a-f]{16}$/
/** Hash, hours, time; then the plan and the values. */
const FIELDS_MIN = 4

export function writeHours(rules: readonly TrackedRule[], hours: HourCallers): string {
  const { table } = hours
  const callers = new Map<number, unknown[]>()
  table.each((slot) => {
    const name = table.nameAt(slot)
    if (name === undefined) return
    const { plan, values } = splitName(name)
    const hash = formatHash({ hi: table.hiAt(slot), lo: table.loAt(slot) })
    const caller = [hash, hours.hoursAt(slot), table.lastMsAt(slot), plan, ...values]
    const known = callers.get(table.ruleAt(slot))
    if (known === undefined) callers.set(table.ruleAt(slot), [caller])
    else known.push(caller)
  })
  const kept = Array.from(callers, ([number, ofRule]) => ({
    rule: rules[number]?.rule,
    by: rules[number]?.by,
    callers: ofRule,
  }))
  return `${JSON.stringify({ format: FORMAT, hour: hours.hour, rules: kept })}\n`
}

/** Hours that are over by now are left out. */
export function readHours(text: string, nowMs: number): readonly KeptRule[] {
  if (text.length > TEXT_LENGTH_MAX) refuse('text', `${text.length} characters`, 'at most 8 MiB')
  const { format, hour, rules } = fieldsOf(JSON.parse(text), 'text')
  if (format !== FORMAT) refuse('format', format, FORMAT)
  if (!isWhole(hour)) return refuse('hour', hour, 'the hours since 1970')
  // Kept by a clock that was ahead: as if it were now.
  const gone = Math.max(0, hourOf(nowMs) - hour)
  const read = listOf(rules, 'rules').map((rule, place) =>
    readRule(rule, `rules[${place}]`, gone, nowMs),
  )
  const count = read.reduce((sum, { callers }) => sum + callers.length, 0)
  if (count > TABLE_SLOTS) refuse('rules', `${count} callers`, `at most ${TABLE_SLOTS}`)
  return read
}

function readRule(value: unknown, place: string, gone: number, nowMs: number): KeptRule {
  const { rule, by, callers } = fieldsOf(value, place)
  if (typeof rule !== 'string' || !ID.test(rule)) {
    return refuse(`${place}.rule`, rule, 'the id of a rule')
  }
  const names = listOf(by, `${place}.by`).filter(isAttribute)
  if (names.length !== listOf(by, place).length || names.length > BY_MAX) {
    return refuse(`${place}.by`, JSON.stringify(by), `up to ${BY_MAX} names of attributes`)
  }
  const read = listOf(callers, `${place}.callers`).map((caller, at) =>
    readCaller(caller, `${place}.callers[${at}]`, gone, nowMs),
  )
  return { rule, by: names, callers: read.filter(({ hours }) => hours !== 0) }
}

function readCaller(value: unknown, place: string, gone: number, nowMs: number): KeptCaller {
  const fields = listOf(value, place)
  const [hash, hours, lastMs, ...texts] = fields
  if (fields.length < FIELDS_MIN || fields.length > FIELDS_MIN + BY_MAX) {
    return refuse(place, `${fields.length} fields`, `${FIELDS_MIN} to ${FIELDS_MIN + BY_MAX}`)
  }
  if (typeof hash !== 'string' || !HASH.test(hash)) return refuse(place, hash, '16 hex digits')
  if (!isWhole(hours) || hours < 1 || hours >= 2 ** HOURS) {
    return refuse(place, hours, `${HOURS} bits that are not all 0`)
  }
  if (!isWhole(lastMs)) return refuse(place, lastMs, 'milliseconds since 1970')
  const [plan = '', ...values] = texts.filter((text) => typeof text === 'string')
  if (values.length + 1 !== texts.length) return refuse(place, 'no text', 'a plan and values')
  return {
    hi: Number.parseInt(hash.slice(0, 8), 16) | 0,
    lo: Number.parseInt(hash.slice(8), 16) | 0,
    hours: shiftHours(hours, gone),
    lastMs: Math.min(lastMs, nowMs),
    name: joinName(plan, values),
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
  throw new Error(`hours of callers, ${place}: found ${show(found)}; accepted: ${accepted}`)
}

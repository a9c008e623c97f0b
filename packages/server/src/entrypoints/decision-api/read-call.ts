/**
 * Reads calls from JSON. Unknown fields are refused: a guess could count another caller.
 *
 * Written by hand, because it runs for every call; read-call-schema.test.ts holds it to the schemas
 * of @sluice/api.
 */
import {
  ATTRIBUTE_NAME_LENGTH_MAX,
  ATTRIBUTES_MAX,
  CALLS_MAX,
  type CheckInput,
  IDEMPOTENCY_KEY_LENGTH_MAX,
  type ReserveInput,
  type ResetInput,
} from '@sluice/api'
import type { ActualCosts } from '@sluice/limiter'
import { ATTRIBUTE_LENGTH_MAX, type Attributes, isCount, SluiceError, show } from '@sluice/core'
import { nearest } from '@sluice/core/config-reader'

/** One body, or one item of a list. */
export interface CallRequest {
  readonly attributes: Attributes
  readonly cost?: number
  readonly receipt?: boolean | 'if-delayed'
  readonly canWait?: boolean
  readonly gate?: boolean
  /** Whether the result lists every enforced limit. */
  readonly policies?: boolean
  readonly rule?: string
  readonly ttl?: string | number
  readonly idempotencyKey?: string
}

export type CallField = keyof CheckInput | keyof ResetInput | keyof ReserveInput

export const CHECK_FIELDS: readonly CallField[] = [
  'attributes',
  'cost',
  'receipt',
  'canWait',
  'gate',
  'policies',
]
export const PEEK_FIELDS: readonly CallField[] = ['attributes', 'cost', 'policies']
/** Those of operations that neither decide by options nor list limits. */
export const PLAIN_FIELDS: readonly CallField[] = ['attributes', 'cost']
/** Those of a check of the admin API. */
export const ADMIN_CHECK_FIELDS: readonly CallField[] = ['attributes', 'cost', 'gate']
export const RESET_FIELDS: readonly CallField[] = ['attributes', 'rule']
export const RESERVE_FIELDS: readonly CallField[] = [
  'attributes',
  'cost',
  'ttl',
  'idempotencyKey',
  'canWait',
  'policies',
]

/** Not an item of a list. */
const ALONE = -1

/** Reads the items of a list; the first invalid item refuses the whole list. */
export function readCalls(
  sent: readonly unknown[],
  keys: readonly CallField[],
): readonly CallRequest[] {
  requireShort(sent)
  return sent.map((item, index) => readCall(item, keys, index))
}

function requireShort({ length }: readonly unknown[]): void {
  if (length > CALLS_MAX) throw invalid('body', `a list of ${length} items`, `up to ${CALLS_MAX}`)
}

/**
 * Returns the parsed object itself, not a copy. That is safe: JSON.parse creates plain objects, in
 * which `__proto__` is an ordinary name.
 */
export function readCall(sent: unknown, keys: readonly CallField[], index = ALONE): CallRequest {
  if (!isObject(sent)) throw invalid(placeOf(index), describe(sent), ACCEPTED_CALL)
  for (const key in sent) {
    const value = sent[key]
    if (!isKey(key, keys)) throw unknownKey(key, keys, index)
    if (key === 'attributes') requireAttributes(value, index)
    else if (key === 'cost') requireCost(value, index)
    else if (key === 'rule') requireRule(value, index)
    else if (key === 'receipt') requireReceipt(value, index)
    else if (key === 'ttl') requireTtl(value, index)
    else if (key === 'idempotencyKey') requireIdempotencyKey(value, index)
    else requireBoolean(value, key, index)
  }
  if (Object.hasOwn(sent, 'attributes')) return sent as unknown as CallRequest
  throw invalid(placeOf(index, 'attributes'), 'nothing', ACCEPTED_ATTRIBUTES)
}

/** Reads the items of a list; the first invalid item refuses the whole list. */
export function readRefunds(sent: readonly unknown[]): readonly (string | CallRequest)[] {
  requireShort(sent)
  return sent.map((item, index) => readRefund(item, index))
}

/** A reservation, and what its verb needs besides. */
export interface ReservationRequest {
  readonly reservation: string
  readonly actual: ActualCosts
  readonly attributes: Attributes
  readonly idempotencyKey?: string
}

type ReservationField = keyof ReservationRequest

export const SETTLE_FIELDS: readonly ReservationField[] = ['reservation', 'actual']
export const EXTEND_FIELDS: readonly ReservationField[] = [
  'reservation',
  'attributes',
  'idempotencyKey',
]
export const CANCEL_FIELDS: readonly ReservationField[] = ['reservation']

/** Reads the items of a list; the first invalid item refuses the whole list. */
export function readReservations<Field extends ReservationField>(
  sent: readonly unknown[],
  fields: readonly Field[],
): readonly Pick<ReservationRequest, Field>[] {
  requireShort(sent)
  return sent.map((item, index) => readReservation(item, fields, index))
}

/** Reads a body that has all these fields, but for the key, and no others. */
export function readReservation<Field extends ReservationField>(
  sent: unknown,
  fields: readonly Field[],
  index = ALONE,
): Pick<ReservationRequest, Field> {
  if (!isObject(sent)) throw invalid(placeOf(index), describe(sent), ACCEPTED_RESERVATION)
  for (const key in sent) {
    const value = sent[key]
    if (!fields.some((field) => field === key)) throw unknownKey(key, fields, index)
    if (key === 'attributes') requireAttributes(value, index)
    else if (key === 'actual') requireActual(value, index)
    else if (key === 'idempotencyKey') requireIdempotencyKey(value, index)
    else requireReservation(value, index)
  }
  for (const field of fields) {
    if (field === 'idempotencyKey' || Object.hasOwn(sent, field)) continue
    throw invalid(placeOf(index, field), 'nothing', ACCEPTED_FIELDS[field])
  }
  return sent as unknown as Pick<ReservationRequest, Field>
}

/** Reads a receipt, or a call whose cost is refunded. */
export function readRefund(sent: unknown, index = ALONE): string | CallRequest {
  if (!isObject(sent)) throw invalid(placeOf(index), describe(sent), ACCEPTED_REFUND)
  if (Object.hasOwn(sent, 'receipt')) return readReceipt(sent, index)
  if (Object.hasOwn(sent, 'attributes')) return readCall(sent, PLAIN_FIELDS, index)
  for (const key in sent)
    if (!isKey(key, REFUND_FIELDS)) throw unknownKey(key, REFUND_FIELDS, index)
  throw invalid(placeOf(index), 'no receipt', ACCEPTED_REFUND)
}

function readReceipt(sent: Readonly<Record<string, unknown>>, index: number): string {
  for (const key in sent) {
    if (key !== 'receipt')
      throw invalid(placeOf(index), `${show(key)} beside a receipt`, 'it alone')
  }
  const { receipt } = sent
  if (typeof receipt === 'string') return receipt
  const place = placeOf(index, 'receipt')
  throw new SluiceError(
    'RECEIPT_INVALID',
    `${place}: found ${describe(receipt)}; accepted: text, as check gave it`,
  )
}

const ACCEPTED_RESERVATION = 'an object such as {"reservation":"..."}'
const ACCEPTED_ACTUAL =
  'a whole number from 0, or one for each cost attribute such as {"tokens":612}'
const ACCEPTED_FIELDS: Readonly<Record<ReservationField, string>> = {
  reservation: 'text, as reserve returned it',
  actual: ACCEPTED_ACTUAL,
  attributes: 'an object of names and values such as {"tokens":200}',
  idempotencyKey: `text of 1 to ${IDEMPOTENCY_KEY_LENGTH_MAX} characters`,
}

const REFUND_FIELDS: readonly CallField[] = ['receipt', 'attributes', 'cost']
const ACCEPTED_REFUND = 'an object such as {"receipt":"..."}'
const ACCEPTED_CALL = 'an object such as {"attributes":{"user":"u1"}}'
const ACCEPTED_ATTRIBUTES = 'an object of names and values such as {"user":"u1"}'
const ACCEPTED_NUMBER = 'a number up to 2^53-1; write a longer one as text'
const ACCEPTED_VALUE = 'text, a number, true or false; null for none'

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isKey(key: string, keys: readonly CallField[]): key is CallField {
  for (let i = 0; i < keys.length; i++) if (keys[i] === key) return true
  return false
}

function requireAttributes(value: unknown, index: number): void {
  if (!isObject(value)) {
    throw invalid(placeOf(index, 'attributes'), describe(value), ACCEPTED_ATTRIBUTES)
  }
  let count = 0
  for (const name in value) {
    if (++count > ATTRIBUTES_MAX) {
      const found = `${Object.keys(value).length} names`
      throw invalid(placeOf(index, 'attributes'), found, `up to ${ATTRIBUTES_MAX}`)
    }
    if (name.length === 0 || name.length > ATTRIBUTE_NAME_LENGTH_MAX) {
      const found = `a name of ${name.length} characters`
      throw invalid(placeOf(index, 'attributes'), found, `1 to ${ATTRIBUTE_NAME_LENGTH_MAX}`)
    }
    requireValue(value[name], name, index)
  }
}

function requireValue(value: unknown, name: string, index: number): void {
  if (typeof value === 'string') {
    if (value.length <= ATTRIBUTE_LENGTH_MAX) return
    throw tooLong(value, placeOfAttribute(name, index))
  }
  if (typeof value === 'number') {
    // A number with more digits was rounded by the parser, and could be that of another caller.
    if (Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value)) return
    throw invalid(placeOfAttribute(name, index), String(value), ACCEPTED_NUMBER)
  }
  if (typeof value === 'boolean' || value === null) return
  throw invalid(placeOfAttribute(name, index), describe(value), ACCEPTED_VALUE)
}

function tooLong({ length }: string, place: string): SluiceError {
  const accepted = `up to ${ATTRIBUTE_LENGTH_MAX}`
  return new SluiceError(
    'CALL_ATTRIBUTE_TOO_LONG',
    `${place}: found ${length} characters; accepted: ${accepted}`,
  )
}

function requireCost(cost: unknown, index: number): void {
  if (isCount(cost)) return
  const place = placeOf(index, 'cost')
  throw new SluiceError(
    'CALL_COST_INVALID',
    `${place} must be an integer between 0 and 2^53-1, got ${describe(cost)}`,
  )
}

function requireRule(value: unknown, index: number): void {
  if (typeof value === 'string') return
  throw invalid(placeOf(index, 'rule'), describe(value), 'the id of a rule')
}

function requireReceipt(value: unknown, index: number): void {
  if (typeof value === 'boolean' || value === 'if-delayed') return
  throw invalid(placeOf(index, 'receipt'), describe(value), 'true, false or "if-delayed"')
}

function requireTtl(value: unknown, index: number): void {
  if (typeof value === 'string' || Number.isSafeInteger(value)) return
  throw invalid(placeOf(index, 'ttl'), describe(value), 'a duration such as "90s", or milliseconds')
}

function requireIdempotencyKey(value: unknown, index: number): void {
  const isText = typeof value === 'string'
  if (isText && value.length > 0 && value.length <= IDEMPOTENCY_KEY_LENGTH_MAX) return
  const found = isText && value.length > 0 ? `${value.length} characters` : describe(value)
  throw invalid(placeOf(index, 'idempotencyKey'), found, ACCEPTED_FIELDS.idempotencyKey)
}

function requireReservation(value: unknown, index: number): void {
  if (typeof value === 'string') return
  throw invalid(placeOf(index, 'reservation'), describe(value), ACCEPTED_FIELDS.reservation)
}

function requireActual(value: unknown, index: number): void {
  if (isCount(value)) return
  if (!isObject(value)) throw invalid(placeOf(index, 'actual'), describe(value), ACCEPTED_ACTUAL)
  for (const name in value) {
    if (name.length === 0 || name.length > ATTRIBUTE_NAME_LENGTH_MAX) {
      const found = `a name of ${name.length} characters`
      throw invalid(placeOf(index, 'actual'), found, `1 to ${ATTRIBUTE_NAME_LENGTH_MAX}`)
    }
    if (isCount(value[name])) continue
    const place = placeOf(index, `actual.${show(name)}`)
    throw invalid(place, describe(value[name]), 'a whole number up to 2^53-1')
  }
}

function requireBoolean(value: unknown, key: CallField, index: number): void {
  if (typeof value === 'boolean') return
  throw invalid(placeOf(index, key), describe(value), 'true or false')
}

function unknownKey(key: string, keys: readonly string[], index: number): SluiceError {
  const near = nearest(key, keys)
  const meant = near === undefined ? '' : `, did you mean "${near}"?`
  return invalid(placeOf(index), `unknown key "${show(key)}"${meant}`, keys.join(', '))
}

function invalid(place: string, found: string, accepted: string): SluiceError {
  return new SluiceError('CALL_INVALID', `${place}: found ${found}; accepted: ${accepted}`)
}

/** `body`, `cost`, and of the fourth item of a list `[3]`, `[3].cost`. */
function placeOf(index: number, field?: string): string {
  if (index === ALONE) return field ?? 'body'
  return field === undefined ? `[${index}]` : `[${index}].${field}`
}

function placeOfAttribute(name: string, index: number): string {
  return placeOf(index, `attributes.${show(name)}`)
}

/** Shows the type as well, so that `"1"` is not confused with 1. */
function describe(value: unknown): string {
  if (typeof value === 'string') return `"${show(value)}"`
  if (Array.isArray(value)) return 'a list'
  return show(value)
}

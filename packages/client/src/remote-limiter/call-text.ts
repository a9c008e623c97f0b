/**
 * Writes a call as JSON, and refuses what the server would refuse: one invalid item refuses its
 * whole list, with the calls of others in it.
 */
import type { RemoteAttribute, RemoteCall } from './decision-types.js'
import { RemoteLimiterError } from './remote-limiter-error.js'

/** The bounds of the decision API. */
const ATTRIBUTES_MAX = 64
const NAME_LENGTH_MAX = 64
const VALUE_LENGTH_MAX = 8192
const LIST_BYTES_MAX = 256 * 1024
export const ITEMS_MAX = 1000
/** The brackets of the list are not part of an item. */
export const ITEMS_BYTES_MAX = LIST_BYTES_MAX - 2

/** One item of a list, with its size. */
export interface ItemText {
  readonly text: string
  readonly bytes: number
}

export function callText(call: RemoteCall, fields: Readonly<Record<string, unknown>>): ItemText {
  const { attributes, cost } = call
  if (typeof attributes !== 'object' || attributes === null) {
    throw invalid('attributes', attributes, 'an object of names and values')
  }
  const names = Object.keys(attributes)
  if (names.length > ATTRIBUTES_MAX) {
    throw invalid('attributes', `${names.length} names`, `up to ${ATTRIBUTES_MAX}`)
  }
  const sent: Record<string, RemoteAttribute> = {}
  for (const name of names) {
    if (name.length === 0 || name.length > NAME_LENGTH_MAX) {
      const found = `a name of ${name.length} characters`
      throw invalid('attributes', found, `1 to ${NAME_LENGTH_MAX}`)
    }
    Object.defineProperty(sent, name, {
      value: readValue(name, attributes[name]),
      enumerable: true,
    })
  }
  if (cost !== undefined && !(Number.isSafeInteger(cost) && cost >= 0)) {
    const message = `cost must be an integer between 0 and 2^53-1, got ${shown(cost)}`
    throw new RemoteLimiterError('CALL_COST_INVALID', 400, message)
  }
  return itemText({ attributes: sent, cost, ...fields })
}

export function receiptText(receipt: string): ItemText {
  if (typeof receipt === 'string') return itemText({ receipt })
  const message = `receipt: found ${shown(receipt)}; accepted: text, as check gave it`
  throw new RemoteLimiterError('RECEIPT_INVALID', 400, message)
}

/** A reservation, and what its verb needs besides. */
export function reservationText(
  reservation: string,
  fields: Readonly<Record<string, unknown>> = {},
): ItemText {
  if (typeof reservation === 'string') return itemText({ reservation, ...fields })
  const message = `reservation: found ${shown(reservation)}; accepted: text, as reserve returned it`
  throw new RemoteLimiterError('RESERVATION_INVALID', 400, message)
}

/** What was used: a number, or one for each cost. */
export function requireActual(actual: unknown): void {
  const units = typeof actual === 'object' && actual !== null ? Object.values(actual) : [actual]
  const wrong = units.find((unit) => !(Number.isSafeInteger(unit) && Number(unit) >= 0))
  if (wrong === undefined && actual !== undefined) return
  const message = `actual must be an integer between 0 and 2^53-1, or one for each cost, got ${shown(wrong)}`
  throw new RemoteLimiterError('CALL_COST_INVALID', 400, message)
}

function itemText(item: object): ItemText {
  const text = JSON.stringify(item)
  const bytes = bytesOf(text)
  if (bytes <= ITEMS_BYTES_MAX) return { text, bytes }
  throw invalid('call', `${bytes} bytes`, `up to ${ITEMS_BYTES_MAX}`)
}

const encoder = new TextEncoder()

function bytesOf(text: string): number {
  return encoder.encode(text).length
}

function readValue(name: string, value: RemoteAttribute): RemoteAttribute {
  const place = `attributes.${shown(name)}`
  if (typeof value === 'string') {
    if (value.length <= VALUE_LENGTH_MAX) return value
    const message = `${place}: found ${value.length} characters; accepted: up to ${VALUE_LENGTH_MAX}`
    throw new RemoteLimiterError('CALL_ATTRIBUTE_TOO_LONG', 400, message)
  }
  // JSON has no number of that size; a rounded one would be another caller.
  if (typeof value === 'bigint') return String(value)
  if (typeof value === 'number') {
    if (Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value)) return value
    throw invalid(place, value, 'a number up to 2^53-1; write a longer one as text')
  }
  if (typeof value === 'boolean' || value === null || value === undefined) return value
  throw invalid(place, value, 'text, a number, true or false; null for none')
}

function invalid(place: string, found: unknown, accepted: string): RemoteLimiterError {
  const message = `${place}: found ${shown(found)}; accepted: ${accepted}`
  return new RemoteLimiterError('CALL_INVALID', 400, message)
}

const SHOWN_MAX = 64

/** Untrusted text, short and without characters that could forge a line of a log. */
function shown(value: unknown): string {
  if (typeof value === 'object' && value !== null) return 'an object'
  return String(value)
    .slice(0, SHOWN_MAX)
    .replace(/[^\x20-\x7e]/g, '?')
}

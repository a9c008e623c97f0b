/** A call: one request to be limited, with its attributes and a cost. */
import { SluiceError } from './errors.js'

/**
 * The `path` of the attributes if it is canonical already, so that it is not computed again. It
 * counts only while both are the same text.
 */
export const CANONICAL_PATH: unique symbol = Symbol('canonical path')

/** Named facts of a call. Numbers and booleans count as their decimal text; empty is absent. */
export type Attributes = Readonly<
  Record<string, string | number | bigint | boolean | null | undefined>
> & { readonly [CANONICAL_PATH]?: string }

export interface Call {
  readonly attributes: Attributes
  /** How much the call takes: a whole number, default 1. 0 takes nothing and always passes. */
  readonly cost?: number | undefined
}

/**
 * The method of a message that a client sends over a WebSocket. Only rules that name it match it:
 * those written for requests would count every message too.
 */
export const MESSAGE = 'MESSAGE'

/** Whether a call is a message. Methods are compared in capitals, and so is this one. */
export function isMessage(attributes: Attributes): boolean {
  const method = attributes['method']
  if (typeof method !== 'string' || method.length !== MESSAGE.length) return false
  return method === MESSAGE || method.toUpperCase() === MESSAGE
}

/** The longest attribute value; a longer one would only exhaust the memory of stores. */
export const ATTRIBUTE_LENGTH_MAX = 8192

/** Returns one attribute as text, or undefined if it is absent or empty. */
export function readAttribute(attributes: Attributes, name: string): string | undefined {
  const value = attributes[name]
  if (typeof value === 'string') return value === '' ? undefined : value
  return value === undefined || value === null ? undefined : readOther(attributes, name, value)
}

/**
 * Reads a value that is neither text nor absent. An unsupported type throws, because it would
 * otherwise bypass the limit.
 */
function readOther(attributes: Attributes, name: string, value: unknown): string | undefined {
  if (!Object.hasOwn(attributes, name)) return undefined
  if (typeof value === 'boolean' || typeof value === 'bigint') return String(value)
  if (typeof value === 'number' && Number.isFinite(value)) return String(value)
  throw new SluiceError(
    'CALL_INVALID',
    `attribute ${name}: found ${typeof value === 'number' ? value : typeof value}; ` +
      'accepted: text, a number, true or false; null or undefined for none',
  )
}

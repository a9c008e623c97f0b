/**
 * Every error of Sluice in one table: its code, its HTTP status and its meaning. A refusal is a
 * decision, not an error. docs/reference/errors.md has a section for each, and a test keeps the two
 * equal.
 */

export const ERROR_CODES = {
  RULES_INVALID: { status: 400, means: 'The rule set has errors; the set in force stays.' },
  CALL_INVALID: { status: 400, means: 'The call is not an object with attributes.' },
  CALL_COST_INVALID: { status: 400, means: 'A cost is not a whole number from 0 to 2^53 - 1.' },
  CALL_ATTRIBUTE_TOO_LONG: { status: 400, means: 'An attribute that names a caller is too long.' },
  CALL_PATH_INVALID: { status: 400, means: 'The path is not in canonical form.' },
  RULE_UNKNOWN: { status: 404, means: 'No rule of the set has this id.' },
  RECEIPT_INVALID: { status: 400, means: 'The receipt is damaged or was not made by Sluice.' },
  RESERVATION_INVALID: {
    status: 400,
    means: 'The reservation is damaged or was not made by Sluice.',
  },
  RESERVATION_ENDED: { status: 409, means: 'The reservation was settled, or has expired.' },
  RESERVATION_DIFFERS: {
    status: 409,
    means: 'The idempotency key was used before, with other costs, limits or ttl.',
  },
  OPTION_INVALID: {
    status: 500,
    means: 'An option of createLimiter or of a store is out of range.',
  },
  STORE_NOT_SYNC: { status: 500, means: 'checkSync needs a store that answers in this process.' },
  STORE_FAILED: { status: 503, means: 'The store did not answer.' },
  STORE_REFUSED: {
    status: 503,
    means: 'The store answers, but refuses this node: password, rights, or a replica.',
  },
  STORE_UNFIT: { status: 500, means: 'Limits would not hold on this store as it is set up.' },
  KEY_SECRET_DIFFERS: {
    status: 500,
    means: 'The counters in the store were begun with another key secret.',
  },
  RULES_ABSENT: { status: 503, means: 'There are no rules yet, so nothing is decided.' },
  LIMITER_CLOSED: { status: 503, means: 'The limiter was closed.' },
} as const

export type ErrorCode = keyof typeof ERROR_CODES

export class SluiceError extends Error {
  readonly code: ErrorCode
  readonly status: number

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'SluiceError'
    this.code = code
    this.status = ERROR_CODES[code].status
  }
}

/**
 * The code and status of an error of Sluice, by its fields: one of a remote limiter, or of another
 * copy of this package, is no instance of the class here. Undefined for other errors.
 */
export function sluiceErrorOf(
  error: unknown,
): Pick<SluiceError, 'code' | 'status' | 'message'> | undefined {
  if (error instanceof SluiceError) return error
  if (!(error instanceof Error && 'code' in error && 'status' in error)) return undefined
  const { code, status, message } = error
  if (typeof code !== 'string' || !isErrorCode(code)) return undefined
  const known = ERROR_CODES[code].status
  return known === status ? { code, status: known, message } : undefined
}

function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_CODES, code)
}

export const SHOWN_MAX = 64
// Control characters, line and paragraph separators, and text direction marks can forge a line of a
// log or a terminal. Lone surrogates cannot be encoded.
const UNPRINTABLE =
  /[\p{Cc}\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu

/** Escapes untrusted text for a log line or an error message; at most 64 characters by default. */
export function show(value: unknown, most = SHOWN_MAX): string {
  const text = typeof value === 'string' ? value : textOf(value)
  // Cut before escaping as well, so that ten megabytes are not escaped to show one line.
  const plain = text.slice(0, most + 1).replace(UNPRINTABLE, escape)
  return plain.length <= most ? plain : `${plain.slice(0, most - 1)}…`
}

/** Returns a value as text. Converting an object may throw. */
function textOf(value: unknown): string {
  return typeof value === 'object' && value !== null ? 'an object' : String(value)
}

function escape(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
}

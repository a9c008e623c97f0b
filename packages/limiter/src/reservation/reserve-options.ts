/** Reads the options of `reserve` and `extend`. */
import {
  type Attributes,
  formatDuration,
  isCount,
  parseDuration,
  show,
  SluiceError,
} from '@sluice/core'
import { requireCall, requireOptions } from '../limiter-options.js'
import type { ExtendOptions, ReserveOptions } from './reservation-types.js'

const TTL_MS_DEFAULT = 60_000
/** A shorter one would expire while its call is decided. */
const TTL_MS_MIN = 1000
const TTL_MS_MAX = 3_600_000
/** Enough for any id; longer ones would only cost time to hash. */
const IDEMPOTENCY_KEY_LENGTH_MAX = 256

const ACCEPTED_OPTIONS = '{ ttl, idempotencyKey, canWait, inFlight }'
const ACCEPTED_TTL = `a duration from ${formatDuration(TTL_MS_MIN)} to ${formatDuration(TTL_MS_MAX)}, such as 90s, or milliseconds`

export interface ReserveRequest {
  readonly ttlMs: number
  readonly idempotencyKey: string | undefined
  readonly canWait: boolean
  readonly inFlight: boolean
}

/** What an extension asks for. */
export interface ExtendRequest {
  readonly attributes: Attributes
  readonly idempotencyKey: string | undefined
}

export function readExtendRequest(attributes: Attributes, options: ExtendOptions): ExtendRequest {
  requireCall({ attributes })
  const { idempotencyKey } = requireOptions(options, '{ idempotencyKey }')
  requireKey(idempotencyKey)
  return { attributes, idempotencyKey }
}

export function readReserveOptions(options: ReserveOptions): ReserveRequest {
  const read = requireOptions(options, ACCEPTED_OPTIONS)
  const { ttl, idempotencyKey, canWait = true, inFlight = true } = read
  requireKey(idempotencyKey)
  return { ttlMs: readTtl(ttl), idempotencyKey, canWait, inFlight }
}

function readTtl(ttl: ReserveOptions['ttl']): number {
  if (ttl === undefined) return TTL_MS_DEFAULT
  const ms = typeof ttl === 'string' ? parseDuration(ttl) : ttl
  if (isCount(ms) && ms >= TTL_MS_MIN && ms <= TTL_MS_MAX) return ms
  throw invalid('ttl', show(ttl), ACCEPTED_TTL)
}

function requireKey(key: unknown): void {
  if (key === undefined) return
  const isText = typeof key === 'string' && key !== ''
  if (isText && key.length <= IDEMPOTENCY_KEY_LENGTH_MAX) return
  const found = isText ? `${key.length} characters` : key === '' ? 'empty text' : typeof key
  throw invalid('idempotencyKey', found, `text of 1 to ${IDEMPOTENCY_KEY_LENGTH_MAX} characters`)
}

function invalid(option: string, found: string, accepted: string): SluiceError {
  return new SluiceError('CALL_INVALID', `${option}: found ${found}; accepted: ${accepted}`)
}

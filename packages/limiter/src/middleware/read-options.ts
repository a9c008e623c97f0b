/** Validates the options of a middleware. */
import { isCount, show, SluiceError } from '@sluice/core'
import { requireOptions } from '../limiter-options.js'
import type { ReserveOptions } from '../reservation/reservation-types.js'
import type { CallLimiter, MiddlewareOptions } from './middleware-options.js'
import { WARNING_CODES } from './warning-log.js'

const HELD_DEFAULT = 1000
const HELD_MAX = 1_000_000

const FUNCTIONS = ['attributes', 'cost', 'skip', 'onRefused', 'onDecision'] as const
const STANDARDS: readonly unknown[] = [true, false, 'draft-6', 'draft-7', 'draft-8']

type AnyOptions = MiddlewareOptions<never, never, unknown, never>

/** Throws OPTION_INVALID for what types do not catch in a program without them. */
export function requireMiddlewareOptions(options: AnyOptions): void {
  requireOptions(options, '{ rules } or { limiter }')
  for (const [name, value] of Object.entries(options)) {
    if (value === null) throw invalid(name, value, 'a value; undefined for the default')
  }
  const { rules, limiter, store, load, headers, posture, shedStatus, warnings, logger } = options
  if (rules !== undefined && limiter !== undefined) {
    throw invalid('limiter', 'one beside rules', 'either of them')
  }
  if (limiter !== undefined && typeof limiter.check !== 'function') {
    throw invalid('limiter', 'one without check', 'one with check(call)')
  }
  if (limiter !== undefined && store !== undefined) {
    throw invalid('store', 'one beside limiter', 'a store beside rules')
  }
  if (limiter !== undefined && load !== undefined) {
    throw invalid('load', 'one beside limiter', 'a load beside rules')
  }
  for (const name of FUNCTIONS) {
    const value = options[name]
    if (value !== undefined && typeof value !== 'function') {
      throw invalid(name, value, 'a function')
    }
  }
  if (!STANDARDS.includes(headers?.standard ?? true)) {
    throw invalid('headers.standard', headers?.standard, "true, false, 'draft-6' to 'draft-8'")
  }
  if (!['open', 'closed'].includes(posture ?? 'closed')) {
    throw invalid('posture', posture, "'open' or 'closed'")
  }
  if (![429, 503].includes(shedStatus ?? 429)) {
    throw invalid('shedStatus', shedStatus, '429 or 503')
  }
  const unknown = warnings === false ? undefined : warnings?.find((code) => !isWarning(code))
  if (unknown !== undefined) throw invalid('warnings', unknown, WARNING_CODES.join(', '))
  for (const level of ['warn', 'error'] as const) {
    if (logger !== undefined && typeof logger[level] !== 'function') {
      throw invalid('logger', `one without ${level}`, 'one with warn and error')
    }
  }
}

export function readCount(
  count: AnyOptions['count'],
  limiter: CallLimiter,
): 'all' | 'failed' | 'succeeded' | 'function' {
  if (count === undefined || count === 'all') return 'all'
  const read = typeof count === 'function' ? 'function' : count
  if (!['function', 'failed', 'succeeded'].includes(read)) {
    throw invalid('count', count, "'all', 'failed', 'succeeded' or a function")
  }
  if (typeof limiter.reserve === 'function') return read
  throw invalid('count', `'${read}' with a limiter that has no reserve`, "'all'")
}

/** Long enough for most handlers; each reservation that ends leaves a mark for as long. */
const RESERVE_TTL = '5m'

/** How requests are reserved; undefined if they are only decided. */
export function readReserve(
  reserve: AnyOptions['reserve'],
  limiter: CallLimiter,
): { readonly ttl: NonNullable<ReserveOptions['ttl']> } | undefined {
  if (reserve === undefined || reserve === false) return undefined
  const isRead = reserve === true || (typeof reserve === 'object' && reserve !== null)
  if (!isRead) throw invalid('reserve', reserve, 'true, false or { ttl }')
  if (typeof limiter.reserve !== 'function') {
    throw invalid('reserve', 'true with a limiter that has no reserve', 'false')
  }
  return { ttl: (reserve === true ? undefined : reserve.ttl) ?? RESERVE_TTL }
}

/** The most calls that are held at once. */
export function readHold(hold: AnyOptions['hold']): number {
  if (hold === undefined || hold === true) return HELD_DEFAULT
  if (hold === false) return 0
  if (isCount(hold.max) && hold.max <= HELD_MAX) return hold.max
  throw invalid('hold.max', hold.max, `a whole number from 0 to ${HELD_MAX}`)
}

function isWarning(code: unknown): boolean {
  return WARNING_CODES.some((known) => known === code)
}

function invalid(option: string, found: unknown, accepted: string): SluiceError {
  return new SluiceError('OPTION_INVALID', `${option}: found ${show(found)}; accepted: ${accepted}`)
}

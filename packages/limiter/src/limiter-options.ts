/** Validates the options of a limiter, and calls. */
import {
  type Call,
  IPV6_PREFIX_MAX,
  IPV6_PREFIX_MIN,
  isCount,
  REGIONS_MAX,
  type RegionPlace,
  type SipKey,
  SluiceError,
  show,
  sipKey,
} from '@sluice/core'
import type { LimiterOptions } from './limiter-types.js'
import type { Load } from './shed/load-shedding.js'
import type { Store } from './store.js'

const STORE_VERBS = ['take', 'peek', 'give', 'charge', 'reset', 'close'] as const
const LOCAL_COUNTERS_DEFAULT = 100_000
const LOCAL_COUNTERS_MAX = 10_000_000

/** The accepted options of `check`, for messages. */
export const ACCEPTED_CHECK = '{ receipt, canWait, gate, inFlight }'
const ACCEPTED_LIMITER = '{ rules, store, secret, ipv6Prefix }'
const ACCEPTED_RULES =
  'YAML or JSON text, a list of rules, or { routes, strictPaths, rules }; ' +
  'undefined where setRules brings them later'

/** Requires an object: programs without types get a message instead of a TypeError. */
export function requireOptions<Options>(options: Options, accepted: string): Options {
  const isObject = typeof options === 'object' && options !== null && !Array.isArray(options)
  if (isObject) return options
  throw invalidOption('options', options, accepted)
}

/**
 * Refuses null in every option. A null is usually a value that was not found, and must not silently
 * mean "no rules, so allow" or a store in this process.
 */
export function requireLimiterOptions(options: LimiterOptions): LimiterOptions {
  requireOptions(options, ACCEPTED_LIMITER)
  for (const [option, value] of Object.entries(options)) {
    if (value !== null) continue
    const accepted = option === 'rules' ? ACCEPTED_RULES : 'a value; undefined for the default'
    throw invalidOption(option, value, accepted)
  }
  return options
}

function invalidOption(option: string, found: unknown, accepted: string): SluiceError {
  const kind = found === null ? 'null' : Array.isArray(found) ? 'a list' : typeof found
  return new SluiceError('OPTION_INVALID', `${option}: found ${kind}; accepted: ${accepted}`)
}

/** Requires an object given by the user to have these functions. */
export function readDependency<Dependency>(
  option: string,
  dependency: Dependency,
  verbs: readonly (keyof Dependency)[],
): Dependency {
  if (dependency === undefined || dependency === null) {
    throw invalidOption(option, dependency, `one with ${verbs.join(', ')}`)
  }
  const missing = verbs.filter((verb) => typeof dependency[verb] !== 'function')
  if (missing.length === 0) return dependency
  throw new SluiceError(
    'OPTION_INVALID',
    `${option}: found one without ${missing.join(', ')}; accepted: one with ${verbs.join(', ')}`,
  )
}

export function readStore(store: Store): Store {
  return readDependency('store', store, STORE_VERBS)
}

export function readSecret(secret: Uint8Array): SipKey {
  if (secret instanceof Uint8Array && secret.length === 16) return sipKey(secret)
  const found = secret instanceof Uint8Array ? `${secret.length} bytes` : typeof secret
  throw new SluiceError('OPTION_INVALID', `secret: found ${found}; accepted: 16 bytes`)
}

export function readPrefix(prefix: number): number {
  return readCount('ipv6Prefix', prefix, IPV6_PREFIX_MIN, IPV6_PREFIX_MAX)
}

export function readLocalCounters(counters = LOCAL_COUNTERS_DEFAULT): number {
  return readCount('localCounters', counters, 1, LOCAL_COUNTERS_MAX)
}

/** The own region must be one of them: the shares of the others would not sum to the limit. */
export function readRegionPlace(place: RegionPlace | undefined): RegionPlace | undefined {
  if (place === undefined) return undefined
  requireOptions(place, '{ own, names }')
  const { own, names } = place
  const isList = Array.isArray(names) && new Set(names).size === names.length
  if (isList && names.length <= REGIONS_MAX && names.includes(own)) return place
  throw new SluiceError(
    'OPTION_INVALID',
    `regions of the store: found ${show(own)} among ${show(names)}; accepted: one of up to ${REGIONS_MAX} names`,
  )
}

export function readLoad(load: Load): Load {
  if (typeof load === 'function') return load
  throw invalidOption('load', load, 'a function that returns how busy the process is; 1 is full')
}

function readCount(option: string, value: number, least: number, most: number): number {
  if (isCount(value) && value >= least && value <= most) return value
  throw new SluiceError(
    'OPTION_INVALID',
    `${option}: found ${show(value)}; accepted: a whole number from ${least} to ${most}`,
  )
}

export function requireCall(call: Call): void {
  if (typeof call === 'object' && call !== null) {
    const { attributes } = call
    const isPlain = typeof attributes === 'object' && attributes !== null
    // A list or a Map would have no attributes, and so no limits.
    if (isPlain && !(Symbol.iterator in attributes)) return
  }
  throw new SluiceError(
    'CALL_INVALID',
    `call: found ${call === null ? 'null' : typeof call}; accepted: { attributes: { user: 'u1' }, cost: 1 }`,
  )
}

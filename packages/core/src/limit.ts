/**
 * A limit: how much in how long, by which algorithm, and the integers the algorithms compute with.
 *
 * `LimitSpec` is the limit as written; `Limit` adds its prepared arithmetic. A limit whose products
 * would exceed 2^53 is refused when the rule loads, never rounded silently.
 */
import type { LimitField } from './algorithms/algorithm.js'
import type { BlockSpec } from './algorithms/block.js'
import { LEASE_MS_MAX, LEASE_MS_MIN } from './algorithms/concurrency.js'
import {
  ALGORITHM_NAMES,
  type AlgorithmName,
  algorithmOf,
  algorithms,
  moduleOf,
  modules,
} from './algorithms/index.js'
import { debtOf, rateOf, scaleOf } from './algorithms/precision.js'
import { type Calendar, CALENDAR_UNITS, type CalendarUnit, DEFAULT_ZONE } from './calendar.js'
import { formatDuration, WINDOW_MS_MAX, WINDOW_MS_MIN } from './text/duration.js'
import { floorDiv, isCount, MAX_UNITS } from './numbers.js'
import { slug } from './rules/suggest.js'

/** The algorithm of a limit that does not name one. */
export const DEFAULT_ALGORITHM: AlgorithmName = 'token-bucket'

/**
 * What a refused call costs: nothing, what is left of its amount, or with `overdraw` all of it: it
 * is counted before it is compared, and what exceeds the limit is owed.
 */
type OnRefusal = 'none' | 'charge' | 'overdraw'

export interface LimitSpec {
  readonly algorithm: AlgorithmName
  /** Units per window, or places; 0 refuses every call. */
  readonly max: number
  /**
   * The length of the window; for a calendar window its usual one, see `CALENDAR_MS`. 0 for
   * concurrency, which has no window.
   */
  readonly windowMs: number
  /** Concurrency: how long a place stays taken if its holder does not renew it. Default 10 s. */
  readonly leaseMs?: number | undefined
  /** The name of the counter; derived from algorithm and window if absent. */
  readonly name?: string | undefined
  /** Buckets: the most units that may be taken at once. Default `max`; 1 for gcra. */
  readonly burst?: number | undefined
  /** Leaky bucket: places for waiting calls. Default `max`. */
  readonly queue?: number | undefined
  /** Leaky bucket: the longest a call may wait. Default one window. */
  readonly maxWaitMs?: number | undefined
  /** token-bucket, gcra: a call that would pass within this time is delayed instead of refused. */
  readonly waitMs?: number | undefined
  /**
   * Fixed window: whether windows begin at multiples of their length since 1970, the same for all
   * callers, or with the caller's first call. Default `clock`.
   */
  readonly start?: 'clock' | 'call' | undefined
  /** Fixed window: only for a calendar window, which is a whole day, week or month of a zone. */
  readonly window?: CalendarUnit | undefined
  /** Calendar window: the name of its time zone. Default UTC. */
  readonly zone?: string | undefined
  readonly onRefusal?: OnRefusal | undefined
  /** How long a caller that goes over is refused; absent for only as long as the limit refuses. */
  readonly block?: BlockSpec | undefined
  /** Units that a counter may owe. Default `max` with `onRefusal: overdraw`, else 0. */
  readonly debt?: number | undefined
}

export interface Limit {
  /** `block` for the counter beside a limit with `block`. */
  readonly algorithm: AlgorithmName | 'block'
  /** The algorithm's number, from 1 on: the format byte of its stored states. */
  readonly format: number
  readonly name: string
  readonly max: number
  /** 0 for concurrency, which has no window. */
  readonly windowMs: number
  /** The window, or the lease of a place. A state further ahead than that is of another clock. */
  readonly windowUs: number
  /** The units of an unused counter: burst, queue or max. 0 refuses every call. */
  readonly capacity: number
  /** The rate in lowest terms: `p` units every `q` ticks of `tickUs` microseconds. */
  readonly p: number
  readonly q: number
  readonly tickUs: number
  /** How long a call may be delayed: `wait` of a bucket, `maxWait` of a leaky bucket. */
  readonly maxWaitUs: number
  /**
   * Buckets: units beyond the burst that a counter may owe, by `wait` and by `debt`. Windows under
   * a ceiling: what is reserved above it, which only charges may use.
   */
  readonly borrowable: number
  /** Sliding counter: window and time left are compared in units of 2^shift microseconds. */
  readonly scale: number
  readonly scaledWindow: number
  readonly onRefusal: OnRefusal
  /** How far below empty a take with `overdraw` may go. */
  readonly debt: number
  /** Only for a calendar window. */
  readonly calendar?: Calendar | undefined
  /** Whether regions merge its counters, so that a store passes on what it takes. @default false */
  readonly isMerged?: boolean | undefined
}

/** Why a limit cannot be used: the field, its value, and an accepted value. */
export interface LimitProblem {
  readonly code:
    | 'limit-number'
    | 'limit-window'
    | 'limit-lease'
    | 'limit-too-fine'
    | 'limit-conflict'
  readonly field: string
  readonly found: string
  readonly accepted: string
}

const OPTIONAL_FIELDS: readonly LimitField[] = [
  'burst',
  'waitMs',
  'queue',
  'maxWaitMs',
  'start',
  'zone',
  'debt',
  'leaseMs',
]
/** The optional fields that also make sense for a limit that refuses every call. */
const FIELDS_OF_WINDOWS: readonly LimitField[] = ['start', 'zone']

const CALENDAR_UNITS_TEXT = `${CALENDAR_UNITS.slice(0, -1).join(', ')} or ${CALENDAR_UNITS.at(-1)}`

/** The shortest window of a limit that an adapter makes itself. */
const ADAPTER_WINDOW_MS_MIN = 1

/**
 * Returns the name of a limit's counter: the given one, else `token-bucket-1s`, `concurrency`,
 * `fixed-window-month` or `fixed-window-month-europe-berlin`. Calendar windows of two zones never
 * share a counter unless they are given the same name.
 */
export function limitNameOf({ name, algorithm, windowMs, window, zone }: LimitSpec): string {
  if (name !== undefined) return name
  if (windowMs === 0) return algorithm
  if (window === undefined) return `${algorithm}-${formatDuration(windowMs)}`
  if (zone === undefined || zone === DEFAULT_ZONE) return `${algorithm}-${window}`
  // Etc/GMT+5 and Etc/GMT-5 are different zones.
  return `${algorithm}-${window}-${slug(zone.replace('+', '-plus-'))}`
}

/** Prepares a limit; throws a RangeError that names the problem if it has one. */
export function defineLimit(spec: LimitSpec): Limit {
  return defineChecked(spec, WINDOW_MS_MIN)
}

/** Prepares a limit that an adapter makes itself: unlike in a rule, its window may be 1 ms. */
export function defineAdapterLimit(spec: LimitSpec): Limit {
  return defineChecked(spec, ADAPTER_WINDOW_MS_MIN)
}

/**
 * Returns the limit of an adapter that counts while a host library decides: a fixed window that
 * never refuses, by default from the caller's first call on.
 */
export function counterLimit({
  windowMs,
  start = 'call',
  name,
}: Pick<LimitSpec, 'windowMs' | 'start' | 'name'>): Limit {
  return defineAdapterLimit({ algorithm: 'fixed-window', start, max: MAX_UNITS, windowMs, name })
}

function defineChecked(spec: LimitSpec, windowMsMin: number): Limit {
  const problem = findProblem(spec, windowMsMin)
  if (problem !== undefined) {
    throw new RangeError(`${problem.field}: found ${problem.found}; accepted: ${problem.accepted}`)
  }
  return prepareLimit(spec)
}

function prepareLimit(spec: LimitSpec): Limit {
  const { max, windowMs } = spec
  const algorithm = moduleOf(spec)
  const rate = rateOf(spec, algorithm) ?? { p: 0, q: 1, tickUs: 1 }
  const prepared = algorithm.prepare(spec, rate)
  const { capacity, maxWaitUs, borrowable, windowUs = windowMs * 1000 } = prepared
  const debt = debtOf(spec)
  const scale = scaleOf(max + debt, windowMs * 1000)
  return {
    algorithm: spec.algorithm,
    format: algorithm.format,
    name: limitNameOf(spec),
    max,
    windowMs,
    windowUs,
    capacity: max === 0 ? 0 : capacity,
    ...rate,
    maxWaitUs,
    borrowable,
    scale,
    scaledWindow: floorDiv(windowMs * 1000, scale),
    onRefusal: spec.onRefusal ?? 'none',
    debt,
    calendar: spec.window && { unit: spec.window, zone: spec.zone ?? DEFAULT_ZONE },
  }
}

/**
 * Returns the limit with another max and capacity, without its `onRefusal` and `debt`; undefined if
 * that cannot be counted exactly.
 */
export function resizeLimit(limit: Limit, max: number, capacity: number): Limit | undefined {
  const spec = algorithmOf(limit).resize(limit, max, capacity)
  return findLimitProblem(spec) === undefined ? defineLimit(spec) : undefined
}

/** Returns a fixed window of the same length or calendar, which counts any size exactly. */
export function asFixedWindow(limit: Limit, max: number): Limit {
  const window = modules[limit.calendar === undefined ? 'fixed-window' : 'calendar-window']
  return defineLimit(window.resize(limit, Math.min(max, MAX_UNITS), max))
}

/** Returns the limit for an entry point that cannot delay a call: a delay becomes a refusal. */
export function withoutWaiting(limit: Limit): Limit {
  return limit.maxWaitUs === 0 ? limit : { ...limit, maxWaitUs: 0 }
}

/** Returns the limit with room for its debt, and without waiting: what may be charged in all. */
export function withDebt(limit: Limit): Limit {
  const { max, capacity, borrowable, debt } = limit
  // Only the algorithms of buckets read `borrowable`, and it then includes the debt.
  const rest = Math.max(0, borrowable - debt)
  return { ...limit, max: max + debt, capacity: capacity + debt, borrowable: rest, maxWaitUs: 0 }
}

export function findLimitProblem(spec: LimitSpec): LimitProblem | undefined {
  return findProblem(spec, WINDOW_MS_MIN)
}

function findProblem(spec: LimitSpec, windowMsMin: number): LimitProblem | undefined {
  return (
    findNumberProblem(spec, windowMsMin) ??
    findPlacesConflict(spec) ??
    findConflict(spec) ??
    findPrecisionProblem(spec)
  )
}

function findNumberProblem(spec: LimitSpec, windowMsMin: number): LimitProblem | undefined {
  const { max, windowMs, leaseMs } = spec
  const number = (field: string, value: unknown, least: number, most: number) =>
    isCount(value) && value >= least && value <= most
      ? undefined
      : ({
          code: 'limit-number',
          field,
          found: String(value),
          accepted: `a whole number from ${least} to ${most}`,
        } as const)
  const optional = (field: string, value: unknown, least: number, most: number) =>
    value === undefined ? undefined : number(field, value, least, most)

  const duration = (field: 'window' | 'lease', ms: unknown, least: number, most: number) =>
    isCount(ms) && ms >= least && ms <= most
      ? undefined
      : ({
          code: `limit-${field}`,
          field,
          found: isCount(ms) ? formatDuration(ms) : String(ms),
          accepted: `a duration from ${formatDuration(least)} to ${formatDuration(most)}`,
        } as const)

  const hasWindow = moduleOf(spec).family !== 'places'
  return (
    (hasWindow ? duration('window', windowMs, windowMsMin, WINDOW_MS_MAX) : undefined) ??
    (leaseMs === undefined ? undefined : duration('lease', leaseMs, LEASE_MS_MIN, LEASE_MS_MAX)) ??
    number('max', max, 0, moduleOf(spec).largestMax) ??
    optional('burst', spec.burst, 1, MAX_UNITS) ??
    optional('queue', spec.queue, 1, algorithms['leaky-bucket'].largestCapacity) ??
    optional('maxWait', spec.maxWaitMs, 0, WINDOW_MS_MAX) ??
    optional('wait', spec.waitMs, 0, WINDOW_MS_MAX) ??
    optional('debt', spec.debt, 0, MAX_UNITS)
  )
}

/** Places have no window, and no time for which a caller could be refused. */
function findPlacesConflict(spec: LimitSpec): LimitProblem | undefined {
  const { algorithm, windowMs, onRefusal, block } = spec
  if (moduleOf(spec).family !== 'places') return undefined
  const conflict = (field: string, found = field): LimitProblem => ({
    code: 'limit-conflict',
    field,
    found: `${found} with algorithm: ${algorithm}`,
    accepted: `no ${field} with it`,
  })
  if (windowMs !== 0) return conflict('window')
  if (onRefusal !== undefined && onRefusal !== 'none') {
    return conflict('onRefusal', `onRefusal: ${onRefusal}`)
  }
  return block === undefined ? undefined : conflict('block')
}

function findConflict(spec: LimitSpec): LimitProblem | undefined {
  const { algorithm, max } = spec
  const conflict = (field: string, accepted: string): LimitProblem => ({
    code: 'limit-conflict',
    field,
    found: `${field} with ${max === 0 ? 'max: 0' : `algorithm: ${algorithm}`}`,
    accepted,
  })
  const canOwe = algorithms[algorithm].fields.includes('debt')
  if (spec.onRefusal === 'overdraw' && !canOwe) {
    return {
      code: 'limit-conflict',
      field: 'onRefusal',
      found: `onRefusal: overdraw with algorithm: ${algorithm}`,
      accepted: `onRefusal: none or charge, because a ${algorithm} cannot owe`,
    }
  }
  for (const field of OPTIONAL_FIELDS) {
    if (spec[field] === undefined) continue
    const name = field.replace(/Ms$/, '')
    if (!algorithms[algorithm].fields.includes(field)) {
      const acceptedBy = ALGORITHM_NAMES.filter((each) => algorithms[each].fields.includes(field))
      return conflict(name, `${name} with ${listOf(acceptedBy)} only`)
    }
    if (max === 0 && !FIELDS_OF_WINDOWS.includes(field)) {
      return conflict(name, 'max: 0 alone, which refuses every call')
    }
  }
  return findCalendarConflict(spec)
}

function findCalendarConflict(spec: LimitSpec): LimitProblem | undefined {
  const { algorithm, windowMs, window, zone, start } = spec
  const conflict = (field: string, found: string, accepted: string): LimitProblem => ({
    code: 'limit-conflict',
    field,
    found,
    accepted,
  })
  if (window === undefined) {
    if (zone === undefined) return undefined
    const found = `zone with window: ${formatDuration(windowMs)}`
    return conflict('zone', found, `zone with window: ${CALENDAR_UNITS_TEXT} only`)
  }
  if (!algorithms[algorithm].fields.includes('window')) {
    const found = `window: ${window} with algorithm: ${algorithm}`
    return conflict('window', found, 'algorithm: fixed-window, or a duration such as 30d')
  }
  if (start !== 'call') return undefined
  const accepted = 'start: clock, or a duration such as 30d'
  return conflict('start', `start: call with window: ${window}`, accepted)
}

/** `a`, `a or b`, `a, b or c`. */
function listOf(names: readonly string[]): string {
  return names.join(', ').replace(/, ([^,]+)$/, ' or $1')
}

function findPrecisionProblem(spec: LimitSpec): LimitProblem | undefined {
  return spec.max === 0 ? undefined : moduleOf(spec).findPrecisionProblem(spec)
}

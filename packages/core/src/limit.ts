/**
 * A limit: how much in how long, by which algorithm, and the integers the algorithms compute with.
 *
 * `LimitSpec` is what a person wrote; `Limit` is the same with its arithmetic prepared. A limit
 * whose products would leave 2^53 is refused when the rule loads, never rounded in silence.
 */
import { formatDuration, WINDOW_MS_MAX, WINDOW_MS_MIN } from './text/duration.js'
import { ceilDiv, floorDiv, gcd, isCount, MAX_INTEGER } from './numbers.js'

export const ALGORITHM_NAMES = [
  'token-bucket',
  'gcra',
  'leaky-bucket',
  'fixed-window',
  'sliding-window-counter',
  'sliding-window-log',
] as const

export type AlgorithmName = (typeof ALGORITHM_NAMES)[number]

/** They hold a place in a queue or a time for each call, which cannot be drawn ahead or merged. */
export const UNMERGEABLE: readonly AlgorithmName[] = ['leaky-bucket', 'sliding-window-log']

export interface LimitSpec {
  readonly algorithm: AlgorithmName
  /** Units per window; 0 refuses every call. */
  readonly max: number
  readonly windowMs: number
  /** Names the counter; made of algorithm and window if absent. */
  readonly name?: string | undefined
  /** Buckets: the most that may be taken at once. Default `max`, for gcra 1. */
  readonly burst?: number | undefined
  /** Leaky bucket: places for waiting calls. Default `max`. */
  readonly queue?: number | undefined
  /** Leaky bucket: the longest a call may wait. Default one window. */
  readonly maxWaitMs?: number | undefined
  /** token-bucket, gcra: a call that would pass within this time is delayed instead of refused. */
  readonly waitMs?: number | undefined
  readonly onRefusal?: 'none' | 'charge' | undefined
  /** Buckets: units a counter may owe beyond its burst after a `charge`. Default 0. */
  readonly debt?: number | undefined
}

export interface Limit {
  readonly algorithm: AlgorithmName
  /** The algorithm's number, from 1 on: the format byte of what stores keep for it. */
  readonly format: number
  readonly name: string
  readonly max: number
  readonly windowMs: number
  readonly windowUs: number
  /** What one counter holds when nothing is used: burst, queue or max. 0 refuses every call. */
  readonly capacity: number
  /** The rate in lowest terms: `p` units every `q` ticks of `tickUs` microseconds. */
  readonly p: number
  readonly q: number
  readonly tickUs: number
  /** How long a call may be delayed: `wait` of a bucket, `maxWait` of a leaky bucket. */
  readonly maxWaitUs: number
  /** Buckets: units beyond the burst that a counter may owe, by `wait` and by `charge`. */
  readonly borrowable: number
  /** Sliding counter: window and time left are compared in units of 2^shift microseconds. */
  readonly scale: number
  readonly scaledWindow: number
  readonly onRefusal: 'none' | 'charge'
}

/** Why a limit cannot be computed with: which field, what it says, what would do. */
export interface LimitProblem {
  readonly code: 'limit-number' | 'limit-window' | 'limit-too-fine' | 'limit-conflict'
  readonly field: string
  readonly found: string
  readonly accepted: string
}

/** Headers carry at most 15 digits (RFC 9651), so no limit may be larger. */
export const MAX_UNITS = 999_999_999_999_999
const LOG_ENTRIES_MAX = 10_000
/** A sliding counter rounds by at most two steps of a window, so it errs by at most prev / 2^20. */
const WINDOW_STEPS_MIN = 2 ** 21
const LEAKY_QUEUE_MAX = 2 ** 24 - 1
const TICKS_US = [1, 1000] as const

const isBucket = (algorithm: AlgorithmName): boolean =>
  algorithm === 'token-bucket' || algorithm === 'gcra'

export function defaultLimitName(algorithm: AlgorithmName, windowMs: number): string {
  return `${algorithm}-${formatDuration(windowMs)}`
}

/** The largest `max` of an algorithm, whatever the window. */
export function largestMax(algorithm: AlgorithmName): number {
  return algorithm === 'sliding-window-log' ? LOG_ENTRIES_MAX : MAX_UNITS
}

/** The most that a limit of an algorithm may hold at once: burst, queue, or the max itself. */
export function largestCapacity(algorithm: AlgorithmName): number {
  return algorithm === 'leaky-bucket' ? LEAKY_QUEUE_MAX : largestMax(algorithm)
}

/** Prepares a limit; throws a RangeError naming the problem if it has one. */
export function defineLimit(spec: LimitSpec): Limit {
  const problem = findLimitProblem(spec)
  if (problem !== undefined) {
    throw new RangeError(`${problem.field}: found ${problem.found}; accepted: ${problem.accepted}`)
  }
  const { algorithm, max, windowMs } = spec
  const capacity = capacityOf(spec)
  const waitMs = algorithm === 'leaky-bucket' ? (spec.maxWaitMs ?? windowMs) : (spec.waitMs ?? 0)
  const rate = rateOf(spec) ?? { p: 0, q: 1, tickUs: 1 }
  const scale = scaleOf(max, windowMs * 1000)
  return {
    algorithm,
    format: ALGORITHM_NAMES.indexOf(algorithm) + 1,
    name: spec.name ?? defaultLimitName(algorithm, windowMs),
    max,
    windowMs,
    windowUs: windowMs * 1000,
    capacity,
    ...rate,
    maxWaitUs: waitMs * 1000,
    borrowable: isBucket(algorithm) ? borrowableUnits(spec, rate) : 0,
    scale,
    scaledWindow: floorDiv(windowMs * 1000, scale),
    onRefusal: spec.onRefusal ?? 'none',
  }
}

/** The same limit for a way in that cannot hold a call: a delay is a refusal. */
export function withoutWaiting(limit: Limit): Limit {
  return limit.maxWaitUs === 0 ? limit : { ...limit, maxWaitUs: 0 }
}

function capacityOf(spec: LimitSpec): number {
  if (spec.max === 0) return 0
  if (spec.algorithm === 'leaky-bucket') return spec.queue ?? spec.max
  if (spec.algorithm === 'gcra') return spec.burst ?? 1
  if (spec.algorithm === 'token-bucket') return spec.burst ?? spec.max
  return spec.max
}

interface Rate {
  readonly p: number
  readonly q: number
  readonly tickUs: number
}

/**
 * The rate in microseconds, else in milliseconds, else nothing: 4 * burst * q must stay exact, and
 * so must the microseconds in which that is regained.
 */
function rateOf(spec: LimitSpec): Rate | undefined {
  if (spec.max === 0) return undefined
  for (const tickUs of TICKS_US) {
    const rate = rateIn(spec, tickUs)
    const parts = 4 * (capacityOf(spec) + 1 + borrowableUnits(spec, rate)) * rate.q
    const refillUs = ceilDiv(parts, rate.p) * tickUs
    if (Math.max(parts, refillUs, rate.p * tickUs) <= MAX_INTEGER) return rate
  }
  return undefined
}

function rateIn({ max, windowMs }: LimitSpec, tickUs: number): Rate {
  const window = (windowMs * 1000) / tickUs
  const divisor = gcd(max, window)
  return { p: max / divisor, q: window / divisor, tickUs }
}

/** Rounded up: a share of a unit that was lent and forgotten would be admitted again and again. */
function borrowableUnits(spec: LimitSpec, { p, q, tickUs }: Rate): number {
  const waitTicks = floorDiv((spec.waitMs ?? 0) * 1000, tickUs)
  return ceilDiv(waitTicks * p, q) + (spec.debt ?? 0)
}

/** The power of two that keeps max * window below 2^52, so that every product compares exactly. */
function scaleOf(max: number, windowUs: number): number {
  let scale = 1
  while (max * floorDiv(windowUs, scale) > 2 ** 52) scale *= 2
  return scale
}

export function findLimitProblem(spec: LimitSpec): LimitProblem | undefined {
  return findNumberProblem(spec) ?? findConflict(spec) ?? findPrecisionProblem(spec)
}

function findNumberProblem(spec: LimitSpec): LimitProblem | undefined {
  const { max, windowMs } = spec
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

  if (!isCount(windowMs) || windowMs < WINDOW_MS_MIN || windowMs > WINDOW_MS_MAX) {
    return {
      code: 'limit-window',
      field: 'window',
      found: isCount(windowMs) ? formatDuration(windowMs) : String(windowMs),
      accepted: `a duration from ${formatDuration(WINDOW_MS_MIN)} to ${formatDuration(WINDOW_MS_MAX)}`,
    }
  }
  return (
    number('max', max, 0, largestMax(spec.algorithm)) ??
    optional('burst', spec.burst, 1, MAX_UNITS) ??
    optional('queue', spec.queue, 1, LEAKY_QUEUE_MAX) ??
    optional('maxWait', spec.maxWaitMs, 0, WINDOW_MS_MAX) ??
    optional('wait', spec.waitMs, 0, WINDOW_MS_MAX) ??
    optional('debt', spec.debt, 0, MAX_UNITS)
  )
}

function findConflict(spec: LimitSpec): LimitProblem | undefined {
  const { algorithm, max } = spec
  const conflict = (field: string, accepted: string): LimitProblem => ({
    code: 'limit-conflict',
    field,
    found: `${field} with ${max === 0 ? 'max: 0' : `algorithm: ${algorithm}`}`,
    accepted,
  })
  for (const field of ['burst', 'waitMs', 'queue', 'maxWaitMs'] as const) {
    if (spec[field] === undefined) continue
    const name = field.replace(/Ms$/, '')
    const leaky = field === 'queue' || field === 'maxWaitMs'
    if (leaky && algorithm !== 'leaky-bucket') {
      return conflict(name, `${name} with leaky-bucket only`)
    }
    if (!leaky && !isBucket(algorithm)) {
      return conflict(name, `${name} with token-bucket or gcra only`)
    }
    if (max === 0) return conflict(name, 'max: 0 alone, which refuses every call')
  }
  return undefined
}

function findPrecisionProblem(spec: LimitSpec): LimitProblem | undefined {
  const { algorithm, max, windowMs } = spec
  if (max === 0) return undefined
  const window = formatDuration(windowMs)
  if (isBucket(algorithm) || algorithm === 'leaky-bucket') {
    if (!fitsQueue(spec)) {
      return {
        code: 'limit-too-fine',
        field: 'queue',
        found: `${capacityOf(spec)} places (the default queue is max)`,
        accepted: `queue: 1 to ${LEAKY_QUEUE_MAX}`,
      }
    }
    if (rateOf(spec) !== undefined) return undefined
    return {
      code: 'limit-too-fine',
      found: `${max}/${window}, whose rate is too fine to count exactly`,
      ...nearestLimit(spec),
    }
  }
  if (algorithm !== 'sliding-window-counter') return undefined
  const windowUs = windowMs * 1000
  const scale = scaleOf(max, windowUs)
  if (scale === 1 || floorDiv(windowUs, scale) >= WINDOW_STEPS_MIN) return undefined
  return {
    code: 'limit-too-fine',
    field: 'max',
    found: `${max}/${window}, too large for a sliding-window-counter`,
    accepted: `max: 0 to ${slidingMax(windowUs)}, or a token-bucket`,
  }
}

function slidingMax(windowUs: number): number {
  let steps = windowUs
  while (floorDiv(steps, 2) >= WINDOW_STEPS_MIN) steps = floorDiv(steps, 2)
  return floorDiv(2 ** 52, steps)
}

/** Another max if one near by is exact; else the rate will do, but not so large a burst with it. */
function nearestLimit(spec: LimitSpec): Pick<LimitProblem, 'field' | 'accepted'> {
  const max = nearestMax(spec)
  if (max !== undefined) {
    const window = formatDuration(spec.windowMs)
    return { field: 'max', accepted: `the nearest that is exact: ${max}/${window}` }
  }
  const { q } = rateIn(spec, 1)
  const most = Math.min(MAX_UNITS, floorDiv(MAX_INTEGER, 4 * q) - 1)
  return { field: 'burst', accepted: `1 to ${most} at this rate, less what wait and debt lend` }
}

function fitsQueue(spec: LimitSpec): boolean {
  return spec.algorithm !== 'leaky-bucket' || capacityOf(spec) <= LEAKY_QUEUE_MAX
}

/**
 * The max nearest to the one asked for that shares a large enough divisor with its window, fills
 * its burst soon enough, and as its own burst is not too large.
 */
function nearestMax(spec: LimitSpec): number | undefined {
  const { max, windowMs } = spec
  const held = capacityOf({ ...spec, max: 1 }) + 1 + (spec.debt ?? 0)
  const slowest = (4000 * held * windowMs) / MAX_INTEGER
  let best: number | undefined
  const consider = (candidate: number) => {
    const sized = { ...spec, max: candidate }
    if (candidate > MAX_UNITS || rateOf(sized) === undefined || !fitsQueue(sized)) return
    if (best === undefined || Math.abs(candidate - max) < Math.abs(best - max)) best = candidate
  }
  for (const divisor of divisorsOf(windowMs)) {
    const largest = (MAX_INTEGER / 4 / windowMs) * divisor - 1
    for (const near of [max, slowest, largest]) {
      const below = floorDiv(near, divisor) * divisor
      if (below > 0) consider(below)
      consider(below + divisor)
    }
  }
  return best
}

function divisorsOf(whole: number): readonly number[] {
  const divisors: number[] = []
  for (let small = 1; small * small <= whole; small++) {
    if (whole % small === 0) divisors.push(small, whole / small)
  }
  return divisors
}

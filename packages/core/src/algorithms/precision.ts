/**
 * Keeps limits exact: every product that an algorithm computes must stay at or below 2^53 - 1. A
 * limit that cannot satisfy this is refused when its rule loads, never rounded silently.
 */
import { formatDuration } from '../text/duration.js'
import type { LimitProblem, LimitSpec } from '../limit.js'
import { ceilDiv, floorDiv, gcd, MAX_INTEGER, MAX_UNITS } from '../numbers.js'

/** A rate in lowest terms: `p` units every `q` ticks of `tickUs` microseconds. */
export interface Rate {
  readonly p: number
  readonly q: number
  readonly tickUs: number
}

/** The part of an algorithm that determines the capacity of a limit. */
interface Sizing {
  readonly largestCapacity: number
  capacityOf(spec: LimitSpec): number
}

const TICKS_US = [1, 1000] as const
/** A sliding counter rounds by at most two steps of a window: an error of at most prev / 2^20. */
const WINDOW_STEPS_MIN = 2 ** 21

/**
 * Returns the rate in microseconds, else in milliseconds, else undefined: 4 * burst * q must stay
 * exact, and so must the microseconds in which it refills. Without a window there is no rate.
 */
export function rateOf(spec: LimitSpec, sizing: Sizing): Rate | undefined {
  if (spec.max === 0 || spec.windowMs === 0) return undefined
  for (const tickUs of TICKS_US) {
    const rate = rateIn(spec, tickUs)
    const parts = 4 * (sizing.capacityOf(spec) + 1 + borrowableUnits(spec, rate)) * rate.q
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

/**
 * Rounded up, because a borrowed fraction of a unit that was dropped would be admitted repeatedly.
 */
export function borrowableUnits(spec: LimitSpec, { p, q, tickUs }: Rate): number {
  const waitTicks = floorDiv((spec.waitMs ?? 0) * 1000, tickUs)
  return ceilDiv(waitTicks * p, q) + debtOf(spec)
}

/** Returns how many units a counter of a limit may owe. */
export function debtOf({ max, debt, onRefusal }: LimitSpec): number {
  return debt ?? (onRefusal === 'overdraw' ? max : 0)
}

/** Returns why the rate of a limit cannot be counted exactly, with the nearest limit that can. */
export function findRateProblem(spec: LimitSpec, sizing: Sizing): LimitProblem | undefined {
  if (rateOf(spec, sizing) !== undefined) return undefined
  if (rateOf({ ...spec, debt: 0 }, sizing) !== undefined) {
    return debtProblem(spec, mostDebt(spec, sizing))
  }
  const window = formatDuration(spec.windowMs)
  return {
    code: 'limit-too-fine',
    found: `${spec.max}/${window}, whose rate is too fine to count exactly`,
    ...nearestLimit(spec, sizing),
  }
}

/** Returns the most that a bucket may owe for its rate to be counted exactly. */
export function mostDebt(spec: LimitSpec, sizing: Sizing): number {
  const fits = TICKS_US.map((tickUs) => {
    const rate = rateIn(spec, tickUs)
    if (rate.p * tickUs > MAX_INTEGER) return 0
    const parts = Math.min(MAX_INTEGER, floorDiv(MAX_INTEGER, tickUs) * rate.p)
    const held = sizing.capacityOf(spec) + 1 + borrowableUnits({ ...spec, debt: 0 }, rate)
    return floorDiv(parts, 4 * rate.q) - held
  })
  return Math.min(MAX_UNITS, Math.max(0, ...fits))
}

/** Returns the problem of a debt that is too large for what its limit is counted by. */
export function debtProblem(spec: LimitSpec, most: number): LimitProblem {
  const { algorithm, max } = spec
  return {
    code: 'limit-too-fine',
    field: 'debt',
    found: `debt ${debtOf(spec)} with max: ${max}`,
    accepted: `debt: 0 to ${most} with this ${algorithm}`,
  }
}

/** Suggests a nearby max if one is exact; otherwise a smaller burst for the same rate. */
function nearestLimit(spec: LimitSpec, sizing: Sizing): Pick<LimitProblem, 'field' | 'accepted'> {
  const max = nearestMax(spec, sizing)
  if (max !== undefined) {
    const window = formatDuration(spec.windowMs)
    return { field: 'max', accepted: `the nearest that is exact: ${max}/${window}` }
  }
  const { q } = rateIn(spec, 1)
  const most = Math.min(MAX_UNITS, floorDiv(MAX_INTEGER, 4 * q) - 1)
  return { field: 'burst', accepted: `1 to ${most} at this rate, less what wait and debt lend` }
}

/**
 * Returns the max nearest to the requested one that shares a large enough divisor with its window,
 * refills its burst soon enough, and is not too large as its own burst.
 */
function nearestMax(spec: LimitSpec, sizing: Sizing): number | undefined {
  const { max, windowMs } = spec
  const held = sizing.capacityOf({ ...spec, max: 1 }) + 1 + debtOf({ ...spec, max: 1 })
  const slowest = (4000 * held * windowMs) / MAX_INTEGER
  let best: number | undefined
  const consider = (candidate: number) => {
    const sized = { ...spec, max: candidate }
    if (candidate > MAX_UNITS || sizing.capacityOf(sized) > sizing.largestCapacity) return
    if (rateOf(sized, sizing) === undefined) return
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

/**
 * The power of two that keeps units * window below 2^52, so that every product compares exactly;
 * `units` are what a window may count, max and debt.
 */
export function scaleOf(units: number, windowUs: number): number {
  let scale = 1
  while (units * floorDiv(windowUs, scale) > 2 ** 52) scale *= 2
  return scale
}

/** Returns why a sliding counter of this max and debt cannot divide its window finely enough. */
export function findScaleProblem(spec: LimitSpec): LimitProblem | undefined {
  const { max, windowMs } = spec
  const debt = debtOf(spec)
  const windowUs = windowMs * 1000
  if (isFineEnough(max + debt, windowUs)) return undefined
  const largest = largestScaledMax(windowUs)
  if (isFineEnough(max, windowUs)) return debtProblem(spec, largest - max)
  return {
    code: 'limit-too-fine',
    field: 'max',
    found: `${max}/${formatDuration(windowMs)}, too large for a sliding-window-counter`,
    accepted: `max: 0 to ${largest}, or a token-bucket`,
  }
}

function isFineEnough(units: number, windowUs: number): boolean {
  const scale = scaleOf(units, windowUs)
  return scale === 1 || floorDiv(windowUs, scale) >= WINDOW_STEPS_MIN
}

function largestScaledMax(windowUs: number): number {
  let steps = windowUs
  while (floorDiv(steps, 2) >= WINDOW_STEPS_MIN) steps = floorDiv(steps, 2)
  return floorDiv(2 ** 52, steps)
}

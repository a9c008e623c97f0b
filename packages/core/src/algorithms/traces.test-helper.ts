/** Generates limits of every accepted size, and calls to them. */
import fc from 'fast-check'
import { CALENDAR_MS, CALENDAR_UNITS } from '../calendar.js'
import { ZONES } from '../calendar.test-helper.js'
import { MODULE_CHOICES, type ModuleName, type RateModuleName } from './index.js'
import { defineLimit, findLimitProblem, type Limit, type LimitSpec } from '../limit.js'
import type { Outcome } from './algorithm.js'
import type { Act } from './apply.test-helper.js'

/** The largest number of units of a limit. */
const MAX_UNITS = 999_999_999_999_999
/** The end of a trace, so that later times stay below 2^53. */
const LATEST_US = 3e15
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000
const YEAR_MS = 366 * DAY_MS

const windows = fc.oneof(
  fc.constantFrom(250, 1000, 1500, MINUTE_MS, 3_600_000, DAY_MS, 30 * DAY_MS, YEAR_MS),
  fc.integer({ min: 250, max: YEAR_MS }),
)

/** Evenly distributed magnitudes from 1 to 10^15. */
const magnitudes = fc
  .integer({ min: 0, max: 15 })
  .chain((digits) => fc.integer({ min: 1, max: Math.min(MAX_UNITS, 10 ** digits) }))

const fewUnits = fc.integer({ min: 1, max: 20 })
const units = fc.oneof(fewUnits, magnitudes, fc.constantFrom(300_000, 20_000_000, MAX_UNITS))

const debts = fc.option(fc.oneof(fc.integer({ min: 0, max: 50 }), magnitudes), { nil: undefined })

export interface Choices {
  /** Whether buckets may make calls wait, and all but queues go into debt. */
  readonly lends?: boolean
  /** Only limits whose slots or units come at most once a tick. */
  readonly slow?: boolean
}

/** Generates valid limits, up to the bounds of what is accepted. */
export function specs(
  algorithm: ModuleName,
  { lends = false, slow = false }: Choices = {},
): fc.Arbitrary<LimitSpec> {
  const isLog = algorithm === 'sliding-window-log'
  const max = isLog ? fc.oneof(fewUnits, fc.integer({ min: 1, max: 10_000 })) : units
  if (algorithm === 'concurrency') return placesSpecs()
  const choice = MODULE_CHOICES[algorithm]
  const sized = fc.record({ max, windowMs: windows }).map((size) => ({ ...choice, ...size }))
  const wide = sized.chain((spec): fc.Arbitrary<LimitSpec> => {
    if (algorithm === 'calendar-window') return calendarSpecs(spec)
    if (algorithm === 'token-bucket' || algorithm === 'gcra') return bucketSpecs(spec, lends)
    if (algorithm === 'leaky-bucket') return queueSpecs(spec)
    return lends ? debts.map((debt) => ({ ...spec, debt })) : fc.constant(spec)
  })
  return wide.filter((spec) => findLimitProblem(spec) === undefined && (!slow || isSlow(spec)))
}

function placesSpecs(): fc.Arbitrary<LimitSpec> {
  const max = fc.oneof(fewUnits, fc.integer({ min: 1, max: 1_000_000_000 }))
  const leaseMs = fc.option(fc.integer({ min: 1000, max: 300_000 }), { nil: undefined })
  const size = fc.record({ max, leaseMs })
  return size.map((each) => ({ algorithm: 'concurrency', windowMs: 0, ...each }))
}

function isSlow(spec: LimitSpec): boolean {
  const { p, q } = defineLimit(spec)
  return q >= p
}

function bucketSpecs(spec: LimitSpec, lends: boolean): fc.Arbitrary<LimitSpec> {
  const waits = fc.oneof(fc.constantFrom(1, 1000, 2500), fc.integer({ min: 0, max: spec.windowMs }))
  return fc
    .record({
      burst: fc.option(fc.oneof(fewUnits, units, fc.constant(MAX_UNITS)), { nil: undefined }),
      tickUs: fc.constantFrom(1, 1000),
      waitMs: fc.option(waits, { nil: undefined }),
      debt: fc.option(fc.integer({ min: 0, max: 50 }), { nil: undefined }),
    })
    .map(({ burst, tickUs, waitMs, debt }) => {
      const borrowable = (debt ?? 0) + Math.ceil(((waitMs ?? 0) / spec.windowMs) * spec.max) + 1
      const largest = largestBurst(spec, tickUs)
      const wanted = burst ?? (spec.algorithm === 'gcra' ? 1 : spec.max)
      if (!lends || borrowable >= largest) return { ...spec, burst: Math.min(wanted, largest) }
      const most = largest - borrowable
      return { ...spec, waitMs, debt, burst: wanted > most ? most : burst }
    })
}

/** The largest burst that a rate can have, counted in microseconds or in milliseconds. */
function largestBurst({ max, windowMs }: LimitSpec, tickUs: number): number {
  const window = (windowMs * 1000) / tickUs
  let [divisor, rest] = [max, window]
  while (rest !== 0) [divisor, rest] = [rest, divisor % rest]
  const parts = Math.min(1, max / divisor / tickUs) * Number.MAX_SAFE_INTEGER
  const burst = Math.floor(parts / 4 / (window / divisor)) - 1
  return Math.min(MAX_UNITS, Math.max(1, burst))
}

function calendarSpecs(spec: LimitSpec): fc.Arbitrary<LimitSpec> {
  const zone = fc.option(fc.constantFrom(...ZONES), { nil: undefined })
  return fc
    .record({ window: fc.constantFrom(...CALENDAR_UNITS), zone })
    .map((calendar) => ({ ...spec, ...calendar, windowMs: CALENDAR_MS[calendar.window] }))
}

function queueSpecs(spec: LimitSpec): fc.Arbitrary<LimitSpec> {
  const queue = fc.oneof(fewUnits, fewUnits, fc.integer({ min: 1, max: 2 ** 24 - 1 }))
  const maxWaitMs = fc.option(fc.integer({ min: 0, max: spec.windowMs }), { nil: undefined })
  return fc.record({ queue, maxWaitMs }).map((bounds) => ({ ...spec, ...bounds }))
}

const starts = fc.oneof(
  fc.integer({ min: 0, max: 10 ** 9 }),
  fc.integer({ min: 1_700_000_000_000_000, max: 1_700_100_000_000_000 }),
)

/** One call: the pause before it and its amount; `dice` selects what else happens. */
interface Moment {
  readonly pause: { readonly kind: 'us' | 'share' | 'retry'; readonly n: number }
  readonly amount: { readonly kind: 'units' | 'share' | 'over'; readonly n: number }
  readonly dice: number
}

const pauses = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('us' as const), n: fc.constant(0) }) },
  fc.record({ kind: fc.constant('us' as const), n: fc.integer({ min: 1, max: 5000 }) }),
  fc.record({ kind: fc.constant('share' as const), n: fc.integer({ min: 0, max: 1000 }) }),
  fc.record({ kind: fc.constant('share' as const), n: fc.integer({ min: 0, max: 3000 }) }),
  fc.record({ kind: fc.constant('retry' as const), n: fc.integer({ min: 0, max: 1 }) }),
)

const amounts = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('units' as const), n: fc.constant(1) }) },
  fc.record({ kind: fc.constant('units' as const), n: fc.integer({ min: 0, max: 5 }) }),
  fc.record({ kind: fc.constant('share' as const), n: fc.integer({ min: 1, max: 1000 }) }),
  fc.record({ kind: fc.constant('over' as const), n: fc.integer({ min: 0, max: 2 }) }),
)

const moments = fc.array(
  fc.record<Moment>({
    pause: pauses,
    amount: amounts,
    dice: fc.nat({ max: 9999 }),
  }),
  { minLength: 1, maxLength: 30, size: 'max' },
)

export interface Trace {
  readonly spec: LimitSpec
  /** The limits to change to, if changes are enabled. */
  readonly others: readonly LimitSpec[]
  readonly start: number
  readonly moments: readonly Moment[]
}

export function traces(algorithm: RateModuleName, choices: Choices = {}): fc.Arbitrary<Trace> {
  const others = fc.array(specs(algorithm, choices), { maxLength: 3 })
  return fc.record({ spec: specs(algorithm, choices), others, start: starts, moments })
}

/** Events that a trace may include besides takes on a steady clock. */
export interface Mishaps {
  readonly stepsBack?: boolean
  readonly changes?: boolean
  /** Changes the window as well, as under an explicit limit name. */
  readonly windowChanges?: boolean
  readonly gives?: boolean
  readonly charges?: boolean
  /** Takes that gate and overdraw, and with `gives` those that give back. */
  readonly metered?: boolean
}

interface Receipt {
  readonly amount: number
  readonly at: number
}

/** Plays a trace: `apply` returns the outcome of each act, on which the next may depend. */
export function play(trace: Trace, may: Mishaps, apply: (act: Act, limit: Limit) => Outcome): void {
  let limit = defineLimit(trace.spec)
  let now = trace.start
  let retryAfterMs = 0
  const receipts: Receipt[] = []
  for (const moment of trace.moments) {
    const rest = Math.floor(moment.dice / 10)
    now = Math.min(LATEST_US, now + pauseUs(moment, limit, retryAfterMs))
    let changed: Limit | undefined
    if (may.stepsBack && moment.dice % 10 === 0) now = Math.max(0, now - stepUs(rest, limit))
    if (may.changes && moment.dice % 10 === 1) changed = otherLimit(trace, may, limit, rest)
    limit = changed ?? limit
    const amount = unitsOf(moment, limit)
    const act = { ...actOf(moment, may, limit, now, amount, receipts), limit: changed }
    const outcome = apply(act, limit)
    if (outcome.granted > 0) receipts.push({ amount: outcome.granted, at: outcome.at })
    retryAfterMs = outcome.retryAfterMs ?? 0
  }
}

function stepUs(rest: number, { windowUs }: Limit): number {
  const share = Math.floor((windowUs / 1000) * rest)
  return [1, share, windowUs, windowUs + 1, 3 * share, 20 * windowUs][rest % 6] ?? 0
}

function otherLimit(trace: Trace, may: Mishaps, limit: Limit, rest: number): Limit | undefined {
  const other = trace.others[rest % Math.max(1, trace.others.length)]
  if (other === undefined) return undefined
  const spec = may.windowChanges ? other : withWindowOf(limit, other)
  return findLimitProblem(spec) === undefined ? defineLimit(spec) : undefined
}

/** Returns a limit with the window of another one of the same module. */
export function withWindowOf({ windowMs, calendar }: Limit, spec: LimitSpec): LimitSpec {
  return calendar === undefined
    ? { ...spec, windowMs }
    : { ...spec, windowMs, window: calendar.unit, zone: calendar.zone }
}

function actOf(
  { dice }: Moment,
  may: Mishaps,
  limit: Limit,
  now: number,
  amount: number,
  receipts: Receipt[],
): Act {
  const rest = Math.floor(dice / 10)
  if (may.gives && (dice % 10 === 2 || dice % 10 === 3)) {
    const [receipt] = receipts.splice(rest % Math.max(1, receipts.length), 1)
    const back = receipt ?? { amount, at: now }
    const isBlind = rest % 4 === 0 && limit.algorithm !== 'leaky-bucket'
    const undone = rest % 3 === 0
    return { verb: 'give', now, amount: back.amount, at: isBlind ? undefined : back.at, undone }
  }
  if (may.charges && dice % 10 === 4) {
    const at = Math.max(0, now - Math.floor((limit.windowUs / 500) * (rest % 1000)))
    return { verb: 'charge', now, amount, at: rest % 2 === 0 ? now : at, debt: rest % 7 }
  }
  if (may.metered && dice % 10 >= 7) {
    const verb = rest % 5 === 0 ? 'peek' : 'take'
    if (dice % 10 === 7) return { verb, now, amount: 0, gate: true }
    if (dice % 10 === 8) return { verb, now, amount: Math.max(1, amount), overdraw: true }
    const [receipt] = receipts.splice(rest % Math.max(1, receipts.length), 1)
    const at = rest % 3 === 0 ? undefined : (receipt?.at ?? now)
    if (may.gives) return { verb, now, amount: -(receipt?.amount ?? Math.max(1, amount)), at }
  }
  if (dice % 10 === 5) return { verb: 'peek', now, amount }
  const takesLess = limit.algorithm !== 'leaky-bucket' && amount > 1 && dice % 10 === 6
  return { verb: 'take', now, amount, atLeast: takesLess ? 1 + (rest % amount) : undefined }
}

/**
 * Returns a pause in microseconds; `retry` waits as long as the last refusal required, or 1 ms
 * less.
 */
function pauseUs({ pause }: Moment, limit: Limit, retryAfterMs: number): number {
  if (pause.kind === 'us') return pause.n
  if (pause.kind === 'share') return Math.floor((limit.windowUs / 1000) * pause.n)
  return Math.max(0, retryAfterMs - pause.n) * 1000
}

function unitsOf({ amount }: Moment, limit: Limit): number {
  if (amount.kind === 'units') return amount.n
  if (amount.kind === 'over') return limit.capacity + amount.n
  return Math.max(1, Math.floor((limit.capacity / 1000) * amount.n))
}

/**
 * Token bucket and gcra: one implementation; they differ only in the default of `burst`.
 *
 * A bucket holds `capacity` units and regains p units every q ticks. Usage is stored in whole units
 * and q-ths of a unit, so that a changed max or burst keeps it and no rate is rounded. `at` is the
 * time of that usage.
 */
import type { Limit, LimitSpec } from '../limit.js'
import { ceilDiv, floorDiv, MAX_INTEGER, MAX_UNITS, usToMsUp } from '../numbers.js'
import {
  type Algorithm,
  isFromAnotherClock,
  type Outcome,
  type StateLayout,
  type Step,
} from './algorithm.js'
import { borrowableUnits, findRateProblem } from './precision.js'

export interface Bucket {
  readonly at: number
  /** Whole units in use. */
  readonly used: number
  /** The rest of the usage, in q-ths of a unit. */
  readonly part: number
}

/**
 * Returns the usage at the last update, in q-ths of a unit. It is capped at what the limit can hold
 * or lend, so that a lowered limit locks no caller out for longer than its own burst takes to
 * refill; a `part` of another q counts as less than one unit.
 */
function inUseThen(bucket: Bucket, { capacity, borrowable, q }: Limit): number {
  const most = capacity + borrowable
  return bucket.used >= most ? most * q : bucket.used * q + Math.min(bucket.part, q - 1)
}

/** Returns the usage now, in q-ths of a unit. */
function inUseNow(bucket: Bucket | undefined, limit: Limit, now: number): number {
  if (bucket === undefined || limit.capacity === 0) return 0
  const inUseBefore = inUseThen(bucket, limit)
  if (bucket.at >= now) return inUseBefore
  return Math.max(0, inUseBefore - regained(bucket, limit, now))
}

/**
 * Returns what the whole ticks since the last update gave back, p each; the product is skipped if
 * it would exceed the usage.
 */
function regained(bucket: Bucket, limit: Limit, now: number): number {
  const ticks = floorDiv(now - bucket.at, limit.tickUs)
  return Math.min(ticks, ceilDiv(inUseThen(bucket, limit), limit.p)) * limit.p
}

/**
 * Returns the instant to which `inUse` applies: a whole number of ticks after the last one, so that
 * no fraction of a tick is lost. A full bucket starts at the call, because it gains nothing from
 * the fraction before it.
 */
function timeOf(bucket: Bucket | undefined, limit: Limit, now: number, inUse: number): number {
  if (bucket === undefined || limit.capacity === 0) return now
  if (bucket.at > now) return isFromAnotherClock(bucket.at, limit, now) ? now : bucket.at
  return inUse === 0 || limit.tickUs === 1 ? now : now - ((now - bucket.at) % limit.tickUs)
}

function isRebased(bucket: Bucket | undefined, limit: Limit, now: number): boolean {
  if (bucket === undefined || limit.capacity === 0) return false
  return isFromAnotherClock(bucket.at, limit, now)
}

function toBucket(at: number, inUse: number, limit: Limit): Bucket {
  const used = floorDiv(inUse, limit.q)
  return { at, used, part: inUse - used * limit.q }
}

/** Returns the whole units that are entirely unused. */
function remaining(inUse: number, { capacity, q }: Limit): number {
  return Math.max(0, capacity - ceilDiv(inUse, q))
}

/** Returns the microseconds from now until the usage of `at` has dropped by `excess` q-ths. */
function timeToRegain(excess: number, at: number, limit: Limit, now: number): number {
  return excess <= 0 ? 0 : at - now + ceilDiv(excess, limit.p) * limit.tickUs
}

/** Returns the microseconds until the amount is available; a bucket with `wait` admits earlier. */
function waitFor(amount: number, inUse: number, at: number, limit: Limit, now: number): number {
  return timeToRegain(inUse - (limit.capacity - amount) * limit.q, at, limit, now)
}

function admit(
  bucket: Bucket | undefined,
  limit: Limit,
  now: number,
  inUse: number,
  at: number,
  granted: number,
  delayUs: number,
): Step<Bucket> {
  const after = inUse + granted * limit.q
  return {
    granted,
    remaining: remaining(after, limit),
    resetAfterMs: usToMsUp(timeToRegain(after, at, limit, now)),
    retryAfterMs: 0,
    delayMs: delayUs === 0 ? 0 : usToMsUp(delayUs),
    at,
    state: granted === 0 ? undefined : toBucket(at, after, limit),
    rebased: isRebased(bucket, limit, now) ? toBucket(at, inUse, limit) : undefined,
  }
}

function refuse(
  bucket: Bucket | undefined,
  limit: Limit,
  now: number,
  inUse: number,
  at: number,
  retryUs: number | null,
): Step<Bucket> {
  return {
    granted: 0,
    remaining: remaining(inUse, limit),
    resetAfterMs: usToMsUp(timeToRegain(inUse, at, limit, now)),
    retryAfterMs: retryUs === null ? null : usToMsUp(retryUs),
    delayMs: 0,
    at,
    state: undefined,
    rebased: isRebased(bucket, limit, now) ? toBucket(at, inUse, limit) : undefined,
  }
}

function take(
  bucket: Bucket | undefined,
  limit: Limit,
  amount: number,
  now: number,
  atLeast = amount,
): Step<Bucket> {
  const inUse = inUseNow(bucket, limit, now)
  const at = timeOf(bucket, limit, now, inUse)
  // Amount 0 writes nothing, not even a rebased state.
  if (amount === 0) return { ...admit(bucket, limit, now, inUse, at, 0, 0), rebased: undefined }
  if (atLeast > limit.capacity) return refuse(bucket, limit, now, inUse, at, null)

  const waitUs = amount > limit.capacity ? Infinity : waitFor(amount, inUse, at, limit, now)
  if (waitUs <= limit.maxWaitUs) return admit(bucket, limit, now, inUse, at, amount, waitUs)
  const available = remaining(inUse, limit)
  if (available >= atLeast) return admit(bucket, limit, now, inUse, at, available, 0)
  // Whichever comes first: `atLeast` is available, or the whole amount is near enough to wait for.
  const leastUs = waitFor(atLeast, inUse, at, limit, now)
  const retryUs = Math.min(leastUs, waitUs - limit.maxWaitUs)
  return refuse(bucket, limit, now, inUse, at, retryUs)
}

function peek(bucket: Bucket | undefined, limit: Limit, amount: number, now: number): Outcome {
  const inUse = inUseNow(bucket, limit, now)
  const at = timeOf(bucket, limit, now, inUse)
  if (amount > limit.capacity) return refuse(bucket, limit, now, inUse, at, null)
  const waitUs = amount === 0 ? 0 : waitFor(amount, inUse, at, limit, now)
  if (waitUs > limit.maxWaitUs) {
    return refuse(bucket, limit, now, inUse, at, waitUs - limit.maxWaitUs)
  }
  return admit(bucket, limit, now, inUse, at, 0, waitUs)
}

/** Whether the whole bucket has refilled since `at`, and with it what was taken then. */
function isRegained(at: number, limit: Limit, now: number): boolean {
  return now - at >= ceilDiv(limit.capacity * limit.q, limit.p) * limit.tickUs
}

/**
 * Subtracts from the stored usage, not from what the limit can hold: a give under a lowered limit,
 * or one of another tier, must not cut what was used.
 */
function give(
  bucket: Bucket | undefined,
  limit: Limit,
  amount: number,
  now: number,
  at = now,
): Bucket | undefined {
  if (bucket === undefined || limit.capacity === 0 || isRegained(at, limit, now)) return undefined
  const { p, q, tickUs } = limit
  const inUseBefore = bucket.used * q + Math.min(bucket.part, q - 1)
  // Only a far larger limit can have so much in use, and this one cannot count its units.
  if (inUseBefore > MAX_INTEGER) return undefined
  const ticks = Math.max(0, floorDiv(now - bucket.at, tickUs))
  const before = Math.max(0, inUseBefore - Math.min(ticks, ceilDiv(inUseBefore, p)) * p)
  const back = Math.min(amount, ceilDiv(before, q)) * q
  return toBucket(timeOf(bucket, limit, now, before), Math.max(0, before - back), limit)
}

function charge(
  bucket: Bucket | undefined,
  limit: Limit,
  amount: number,
  now: number,
  at: number,
  debt: number,
): Bucket | undefined {
  if (limit.capacity === 0 || isRegained(at, limit, now)) return undefined
  const before = inUseNow(bucket, limit, now)
  const most = (limit.capacity + Math.min(debt, limit.borrowable)) * limit.q
  const wanted = before + Math.min(amount, limit.capacity + limit.borrowable) * limit.q
  const charged = Math.max(before, Math.min(wanted, most))
  return toBucket(timeOf(bucket, limit, now, before), charged, limit)
}

function expiresAt(bucket: Bucket, limit: Limit): number {
  if (limit.capacity === 0) return bucket.at + limit.windowUs
  return bucket.at + ceilDiv(inUseThen(bucket, limit), limit.p) * limit.tickUs
}

const layout: StateLayout<Bucket> = {
  fields: [
    { name: 'at', bytes: 7, wideBytes: 7 },
    { name: 'used', bytes: 4, wideBytes: 7 },
    { name: 'part', bytes: 4, wideBytes: 7 },
  ],
  decode: (numbers) => ({
    at: numbers.readCount(),
    used: numbers.readCount(),
    part: numbers.readCount(),
  }),
  read: (doubles, at) => ({
    at: doubles[at] ?? 0,
    used: doubles[at + 1] ?? 0,
    part: doubles[at + 2] ?? 0,
  }),
  write: (state, doubles, at) => {
    doubles[at] = state.at
    doubles[at + 1] = state.used
    doubles[at + 2] = state.part
  },
}

/** `defaultBurst` is the burst of a limit that does not set one. */
function define(
  name: 'token-bucket' | 'gcra',
  format: number,
  defaultBurst: number | 'max',
): Algorithm<Bucket> {
  const capacityOf = ({ burst, max }: LimitSpec) =>
    burst ?? (defaultBurst === 'max' ? max : defaultBurst)
  const sizing = { largestCapacity: MAX_UNITS, capacityOf }
  return {
    name,
    format,
    lua: 'token-bucket',
    family: 'bucket',
    leasable: true,
    mergeable: true,
    splittable: true,
    alignedToClock: false,
    resetsAtOnce: false,
    windowsCounted: 0,
    unitsBeyondCapacity: 0,
    holdsMax: defaultBurst === 'max',
    fields: ['burst', 'waitMs', 'debt'],
    largestMax: MAX_UNITS,
    largestCapacity: MAX_UNITS,
    capacityOf,
    prepare: (spec, rate) => ({
      capacity: capacityOf(spec),
      maxWaitUs: (spec.waitMs ?? 0) * 1000,
      borrowable: borrowableUnits(spec, rate),
    }),
    findPrecisionProblem: (spec) => findRateProblem(spec, sizing),
    resize: ({ windowMs, name: limitName, maxWaitUs }, max, capacity) => ({
      algorithm: name,
      name: limitName,
      windowMs,
      max,
      ...(max === 0 ? {} : { burst: capacity, waitMs: maxWaitUs / 1000 }),
    }),
    layout,
    take,
    peek,
    give,
    charge,
    expiresAt,
  }
}

export const tokenBucket = define('token-bucket', 1, 'max')
export const gcra = define('gcra', 2, 1)

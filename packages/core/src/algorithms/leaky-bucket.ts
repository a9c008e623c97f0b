/**
 * Leaky bucket: calls leave one after the other, evenly spaced, and wait for their slot in a
 * bounded queue.
 *
 * The state is the next free slot: `next` microseconds and `part` p-ths of a tick. A unit keeps its
 * slot for q/p ticks; a call of several units leaves at its first slot and keeps the following ones
 * free.
 *
 * A caller that leaves the queue frees its place, so another may join at the end. Its slot is
 * reused only if it was the last; otherwise the slot passes empty, so that two calls never leave at
 * one instant. `vacated` counts the places freed this way and `oldest` how many slots before `next`
 * the first of them lies; a slot that may have passed counts as passed, so the queue is never
 * longer than it should be.
 */
import type { Limit, LimitProblem, LimitSpec } from '../limit.js'
import { ceilDiv, floorDiv, MAX_UNITS, usToMsUp } from '../numbers.js'
import type { Algorithm, Outcome, StateLayout, Step } from './algorithm.js'
import { findRateProblem } from './precision.js'

export interface LeakyBucket {
  readonly next: number
  readonly part: number
  readonly vacated: number
  readonly oldest: number
}

interface View extends LeakyBucket {
  /** Microseconds from now to `next`, negative where it has passed. */
  readonly gap: number
  /** Units whose slot is still to come, empty slots included. */
  readonly ahead: number
  readonly idle: boolean
  readonly rebased: boolean
}

function view(bucket: LeakyBucket | undefined, limit: Limit, now: number): View {
  if (bucket === undefined || limit.capacity === 0) return idleView(now)
  const { p, q, tickUs } = limit
  const part = Math.min(bucket.part, p - 1)
  // A full queue, twice, to include the places of calls that left: no queue written by this clock
  // is longer.
  const longestTicks = ceilDiv(2 * (limit.capacity + 1) * q, p)
  const gap = bucket.next - now
  if (gap <= 0 && gap * p + part * tickUs <= 0) return idleView(now)
  if (gap > longestTicks * tickUs + limit.windowUs) return rebasedView(limit, now)

  const gapTicks = Math.min(ceilDiv(gap, tickUs), longestTicks)
  const ahead = ceilDiv(gapTicks * p + part, q) - 1
  const passed = Math.max(0, bucket.oldest - ahead)
  const vacated = Math.min(limit.capacity, Math.max(0, bucket.vacated - passed))
  const oldest = vacated === 0 ? 0 : Math.min(bucket.oldest, ahead)
  return { next: bucket.next, part, vacated, oldest, gap, ahead, idle: false, rebased: false }
}

function idleView(now: number): View {
  const empty = { part: 0, vacated: 0, oldest: 0, gap: 0, ahead: 0 }
  return { next: now, ...empty, idle: true, rebased: false }
}

/** Replaces the queue of another clock with a full queue that starts now. */
function rebasedView(limit: Limit, now: number): View {
  return { ...join(idleView(now), limit, limit.capacity + 1), rebased: true }
}

function stateOf({ next, part, vacated, oldest }: View): LeakyBucket {
  return { next, part, vacated, oldest }
}

/** Returns the microseconds until a call that joins now would leave. */
function delayOf(current: View, limit: Limit): number {
  if (current.idle) return 0
  return Math.max(0, current.gap + ceilDiv(current.part * limit.tickUs, limit.p))
}

/** Returns the microseconds until at most `most` units are ahead; -1 waits for an idle bucket. */
function timeUntilAhead(most: number, current: View, limit: Limit): number {
  const untilIdle = delayOf(current, limit)
  if (most < 0) return untilIdle
  const ticks = floorDiv((most + 1) * limit.q - current.part, limit.p)
  return Math.max(0, Math.min(untilIdle, current.gap - ticks * limit.tickUs))
}

/** Returns the microseconds until there are places for the amount and a slot near enough. */
function waitFor(current: View, limit: Limit, amount: number): number {
  if (current.idle) return 0
  const free = limit.capacity - amount
  const spared = free >= current.oldest - current.vacated ? free + current.vacated : free
  const forPlace = timeUntilAhead(Math.max(-1, spared), current, limit)
  return Math.max(forPlace, delayOf(current, limit) - limit.maxWaitUs)
}

function join(current: View, limit: Limit, amount: number): View {
  const parts = current.part + amount * limit.q
  const ticks = floorDiv(parts, limit.p)
  const gap = current.gap + ticks * limit.tickUs
  const oldest = current.vacated > 0 ? current.oldest + amount : 0
  const ahead = current.idle ? amount - 1 : current.ahead + amount
  return {
    ...current,
    next: current.next + ticks * limit.tickUs,
    part: parts - ticks * limit.p,
    oldest,
    gap,
    ahead,
    idle: false,
  }
}

function step(
  current: View,
  limit: Limit,
  now: number,
  granted: number,
  delayUs: number,
  waitUs: number | null,
): Step<LeakyBucket> {
  const after = granted === 0 ? current : join(current, limit, granted)
  const rebased = current.rebased ? stateOf(current) : undefined
  const places = limit.capacity - after.ahead + after.vacated
  return {
    granted,
    remaining: Math.min(limit.capacity, Math.max(0, places)),
    resetAfterMs: usToMsUp(timeUntilAhead(0, after, limit)),
    retryAfterMs: waitUs === null ? null : usToMsUp(waitUs),
    delayMs: usToMsUp(delayUs),
    at: current.idle ? now : current.next,
    state: granted === 0 ? rebased : stateOf(after),
    rebased,
  }
}

function take(
  bucket: LeakyBucket | undefined,
  limit: Limit,
  amount: number,
  now: number,
): Step<LeakyBucket> {
  const current = view(bucket, limit, now)
  if (amount === 0) return step({ ...current, rebased: false }, limit, now, 0, 0, 0)
  if (!everFits(limit, amount)) return step(current, limit, now, 0, 0, null)
  const waitUs = waitFor(current, limit, amount)
  if (waitUs > 0) return step(current, limit, now, 0, 0, waitUs)
  return step(current, limit, now, amount, delayOf(current, limit), 0)
}

/** With an empty queue the first unit of a call leaves at once; only the others need places. */
function everFits(limit: Limit, amount: number): boolean {
  return limit.capacity > 0 && amount <= limit.capacity + 1
}

function peek(bucket: LeakyBucket | undefined, limit: Limit, amount: number, now: number): Outcome {
  const current = view(bucket, limit, now)
  if (amount === 0) return step(current, limit, now, 0, 0, 0)
  if (!everFits(limit, amount)) return step(current, limit, now, 0, 0, null)
  const waitUs = waitFor(current, limit, amount)
  return step(current, limit, now, 0, waitUs > 0 ? 0 : delayOf(current, limit), waitUs)
}

/**
 * Frees the slot `at`. Without `at` the slot is unknown, so only a place in the queue is freed. A
 * slot that has begun counts as used, unless the call was `undone`: then no call left in it.
 */
function give(
  bucket: LeakyBucket | undefined,
  limit: Limit,
  amount: number,
  now: number,
  at?: number,
  undone = false,
): LeakyBucket | undefined {
  const current = view(bucket, limit, now)
  if (current.idle || amount > limit.capacity + 1) return undefined
  if (at === undefined) return vacate(current, limit, amount, current.ahead)
  if (at <= now && !undone) return undefined

  const before = rewind(current, limit, amount)
  if (before.next === at) return before
  if (at <= now) return undefined
  const slotTicks = floorDiv(current.next - at, limit.tickUs)
  const slots = floorDiv(slotTicks * limit.p + current.part, limit.q)
  if (slots < 1) return undefined
  return vacate(current, limit, Math.min(amount, slots), Math.max(current.oldest, slots))
}

/** Moves the next free slot `slots` slots earlier. */
function rewind(bucket: LeakyBucket, limit: Limit, slots: number): LeakyBucket {
  const parts = bucket.part - slots * limit.q
  const ticks = floorDiv(parts, limit.p)
  const oldest = Math.max(0, bucket.oldest - slots)
  const vacated = Math.min(bucket.vacated, oldest)
  const next = bucket.next + ticks * limit.tickUs
  return { next, part: parts - ticks * limit.p, vacated, oldest }
}

/** Frees at most as many places as the queue has; otherwise its end would move away for ever. */
function vacate(current: View, limit: Limit, amount: number, oldest: number): LeakyBucket {
  const vacated = Math.min(current.ahead, limit.capacity, current.vacated + amount)
  return { ...stateOf(current), vacated, oldest: Math.min(current.ahead, oldest) }
}

function charge(
  bucket: LeakyBucket | undefined,
  limit: Limit,
  amount: number,
  now: number,
): LeakyBucket | undefined {
  const current = view(bucket, limit, now)
  const places = limit.capacity - current.ahead + current.vacated + (current.idle ? 1 : 0)
  const units = Math.min(amount, places)
  return limit.capacity === 0 || units <= 0 ? undefined : stateOf(join(current, limit, units))
}

function expiresAt(bucket: LeakyBucket, limit: Limit): number {
  return bucket.next + limit.tickUs
}

const QUEUE_MAX = 2 ** 24 - 1
/** The bound of both counts of a state, so that one double holds them. */
const COUNT_SPAN = 2 ** 26

const layout: StateLayout<LeakyBucket> = {
  fields: [
    { name: 'next', bytes: 7, wideBytes: 7 },
    { name: 'part', bytes: 4, wideBytes: 7 },
    { name: 'vacated', bytes: 2, wideBytes: 4 },
    { name: 'oldest', bytes: 2, wideBytes: 4 },
  ],
  decode: (numbers) => ({
    next: numbers.readCount(),
    part: numbers.readCount(),
    vacated: numbers.readCount(),
    oldest: numbers.readCount(),
  }),
  read: (doubles, at) => {
    const counts = doubles[at + 2] ?? 0
    const vacated = Math.floor(counts / COUNT_SPAN)
    return {
      next: doubles[at] ?? 0,
      part: doubles[at + 1] ?? 0,
      vacated,
      oldest: counts - vacated * COUNT_SPAN,
    }
  },
  write: (state, doubles, at) => {
    doubles[at] = state.next
    doubles[at + 1] = state.part
    doubles[at + 2] = state.vacated * COUNT_SPAN + state.oldest
  },
}

function capacityOf({ queue, max }: LimitSpec): number {
  return queue ?? max
}

function findPrecisionProblem(spec: LimitSpec): LimitProblem | undefined {
  const capacity = capacityOf(spec)
  if (capacity <= QUEUE_MAX) {
    return findRateProblem(spec, { largestCapacity: QUEUE_MAX, capacityOf })
  }
  return {
    code: 'limit-too-fine',
    field: 'queue',
    found: `${capacity} places (the default queue is max)`,
    accepted: `queue: 1 to ${QUEUE_MAX}`,
  }
}

export const leakyBucket: Algorithm<LeakyBucket> = {
  name: 'leaky-bucket',
  format: 3,
  lua: 'leaky-bucket',
  family: 'queue',
  leasable: false,
  mergeable: false,
  splittable: true,
  alignedToClock: false,
  resetsAtOnce: false,
  windowsCounted: 0,
  unitsBeyondCapacity: 1,
  holdsMax: true,
  fields: ['queue', 'maxWaitMs'],
  largestMax: MAX_UNITS,
  largestCapacity: QUEUE_MAX,
  capacityOf,
  prepare: (spec) => ({
    capacity: capacityOf(spec),
    maxWaitUs: (spec.maxWaitMs ?? spec.windowMs) * 1000,
    borrowable: 0,
  }),
  findPrecisionProblem,
  resize: ({ name, windowMs, maxWaitUs }, max, capacity) => ({
    algorithm: 'leaky-bucket',
    name,
    windowMs,
    max,
    ...(max === 0 ? {} : { queue: capacity, maxWaitMs: maxWaitUs / 1000 }),
  }),
  layout,
  take,
  peek,
  give,
  charge,
  expiresAt,
}

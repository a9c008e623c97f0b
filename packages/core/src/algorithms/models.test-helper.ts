/**
 * Reference models of the algorithms, written from the specification alone and sharing no code
 * with them: exact (BigInt), slow and simple.
 */
import { algorithmOf, type RateModuleName } from './index.js'
import { searchCalendarWindow } from '../calendar.test-helper.js'
import type { Limit } from '../limit.js'

type Numbers =
  | 'max'
  | 'windowUs'
  | 'capacity'
  | 'tickUs'
  | 'maxWaitUs'
  | 'borrowable'
  | 'scale'
  | 'debt'

/** A limit in exact numbers: p units every q ticks. */
export type ExactLimit = Readonly<Record<Numbers | 'p' | 'q', bigint>> &
  Pick<Limit, 'algorithm' | 'calendar'>

export function exactLimit(limit: Limit): ExactLimit {
  const fields = [
    'max',
    'windowUs',
    'capacity',
    'tickUs',
    'maxWaitUs',
    'borrowable',
    'scale',
    'debt',
  ] as const
  const numbers = Object.fromEntries(fields.map((field) => [field, BigInt(limit[field])]))
  const { max, windowUs, tickUs } = numbers as Record<Numbers, bigint>
  const divisor = gcd(max, windowUs / tickUs)
  const rate = { p: max / divisor, q: windowUs / tickUs / divisor }
  const { algorithm, calendar } = limit
  return { ...(numbers as Record<Numbers, bigint>), ...rate, algorithm, calendar }
}

function gcd(a: bigint, b: bigint): bigint {
  return b === 0n ? a : gcd(b, a % b)
}

export const least = (a: bigint, b: bigint): bigint => (a < b ? a : b)
export const most = (a: bigint, b: bigint): bigint => (a > b ? a : b)
const floorOf = (a: bigint, b: bigint): bigint => (a >= 0n ? a / b : -ceilOf(-a, b))
export const ceilOf = (a: bigint, b: bigint): bigint =>
  a > 0n ? (a + b - 1n) / b : -floorOf(-a, b)

/** A state as of now, and whether another clock wrote it. */
export interface CurrentState<State> {
  readonly state: State | undefined
  readonly rebased: boolean
}

/** The functions of an algorithm on a state as of now; undefined is an empty counter. */
export interface Model<State> {
  /** Updates a state to now, by the rules for refilling and for clocks that step back. */
  stateAt(state: State, limit: ExactLimit, now: bigint): CurrentState<State>
  /** Whole units that may be taken at once; below 0 if more is used than the limit holds. */
  free(state: State | undefined, limit: ExactLimit, now: bigint): bigint
  admits(state: State | undefined, limit: ExactLimit, amount: bigint, now: bigint): boolean
  delayUs(state: State | undefined, limit: ExactLimit, amount: bigint, now: bigint): bigint
  /** Whether the bucket is full, the queue empty, or the window of `asOf` over. */
  isReset(state: State | undefined, limit: ExactLimit, now: bigint, asOf: bigint): boolean
  at(state: State | undefined, now: bigint): bigint
  spend(state: State | undefined, limit: ExactLimit, amount: bigint, now: bigint): State
  /** Returns undefined if nothing changes. */
  give(
    state: State,
    limit: ExactLimit,
    amount: bigint,
    now: bigint,
    at?: bigint,
    undone?: boolean,
  ): State | undefined
  charge(
    state: State | undefined,
    limit: ExactLimit,
    amount: bigint,
    now: bigint,
    at: bigint,
    debt: bigint,
  ): State | undefined
}

interface ExactBucket {
  readonly at: bigint
  readonly inUse: bigint
  readonly q: bigint
}

const bucket: Model<ExactBucket> = {
  stateAt(state, limit, now) {
    if (limit.capacity === 0n) return { state: undefined, rebased: false }
    const { q, p, tickUs } = limit
    const part = state.inUse % state.q
    const kept = (state.inUse / state.q) * q + least(part, state.q === q ? part : q - 1n)
    const inUse = least(kept, (limit.capacity + limit.borrowable) * q)
    const ahead = state.at - now
    if (ahead > limit.windowUs) return { state: { at: now, inUse, q }, rebased: true }
    if (ahead > 0n) return { state: { at: state.at, inUse, q }, rebased: false }
    const ticks = -ahead / tickUs
    if (ticks * p >= inUse) return { state: { at: now, inUse: 0n, q }, rebased: false }
    return { state: { at: state.at + ticks * tickUs, inUse: inUse - ticks * p, q }, rebased: false }
  },
  free: (state, limit) => floorOf(limit.capacity * limit.q - (state?.inUse ?? 0n), limit.q),
  admits(state, limit, amount, now) {
    const then = now + limit.maxWaitUs
    const later = state === undefined ? undefined : bucket.stateAt(state, limit, then).state
    return bucket.free(later, limit, then) >= amount
  },
  delayUs(state, limit, amount, now) {
    if (state === undefined) return 0n
    return firstFrom(0n, (us) => {
      const later = bucket.stateAt(state, limit, now + us).state
      return bucket.free(later, limit, now + us) >= amount
    })
  },
  isReset: (state) => state === undefined || state.inUse === 0n,
  at: (state, now) => state?.at ?? now,
  spend: (state, { q }, amount, now) => ({
    at: state?.at ?? now,
    inUse: (state?.inUse ?? 0n) + amount * q,
    q,
  }),
  give(state, limit, amount, now, at = now) {
    if (limit.capacity === 0n || isRefilled(limit, now, at)) return undefined
    return { ...state, inUse: most(0n, state.inUse - amount * limit.q) }
  },
  charge(state, limit, amount, now, at, debt) {
    if (limit.capacity === 0n || isRefilled(limit, now, at)) return undefined
    const full = (limit.capacity + least(debt, limit.borrowable)) * limit.q
    const used = state?.inUse ?? 0n
    return {
      at: state?.at ?? now,
      inUse: most(used, least(used + amount * limit.q, full)),
      q: limit.q,
    }
  },
}

/** Whether a whole bucket has refilled since `at`, and with it whatever was taken then. */
function isRefilled(limit: ExactLimit, now: bigint, at: bigint): boolean {
  return now - at >= ceilOf(limit.capacity * limit.q, limit.p) * limit.tickUs
}

interface ExactQueue {
  /** The next free slot: microseconds, and p-ths of a tick. */
  readonly next: bigint
  readonly part: bigint
  /** Slots of calls that left the queue, each as its distance before `next` in slots. */
  readonly vacated: readonly bigint[]
}

const queue: Model<ExactQueue> = {
  stateAt(state, limit, now) {
    if (limit.capacity === 0n) return { state: undefined, rebased: false }
    const { p, q, tickUs } = limit
    const part = least(state.part, p - 1n)
    const gap = state.next - now
    if (gap * p + part * tickUs <= 0n) return { state: undefined, rebased: false }
    const longest = ceilOf(2n * (limit.capacity + 1n) * q, p) * tickUs
    if (gap > longest + limit.windowUs) {
      const full = { next: now, part: 0n, vacated: [] }
      return { state: advance(full, limit, limit.capacity + 1n), rebased: true }
    }
    const ahead = aheadOf({ ...state, part }, limit, now)
    const vacated = state.vacated.filter((slots) => slots <= ahead)
    return { state: { next: state.next, part, vacated }, rebased: false }
  },
  free(state, limit, now) {
    if (state === undefined) return limit.capacity
    return limit.capacity - aheadOf(state, limit, now) + BigInt(state.vacated.length)
  },
  admits(state, limit, amount, now) {
    if (limit.capacity === 0n) return false
    if (state === undefined) return amount <= limit.capacity + 1n
    const isNear = queue.delayUs(state, limit, amount, now) <= limit.maxWaitUs
    return isNear && queue.free(state, limit, now) >= amount
  },
  delayUs(state, limit, _amount, now) {
    if (state === undefined) return 0n
    return state.next - now + ceilOf(state.part * limit.tickUs, limit.p)
  },
  isReset: (state, limit, now) => state === undefined || aheadOf(state, limit, now) <= 0n,
  at: (state, now) => state?.next ?? now,
  spend: (state, limit, amount, now) =>
    advance(state ?? { next: now, part: 0n, vacated: [] }, limit, amount),
  give(state, limit, amount, now, at, undone = false) {
    const ahead = aheadOf(state, limit, now)
    const hasBegun = at !== undefined && at <= now
    if (amount > limit.capacity + 1n || (hasBegun && !undone)) return undefined
    let slots = ahead
    if (at !== undefined) {
      const before = advance(state, limit, -amount)
      if (before.next === at) return before
      if (hasBegun) return undefined
      slots = least(
        ahead,
        firstFrom(0n, (n) => advance(state, limit, -n - 1n).next < at),
      )
      if (slots === 0n) return undefined
    }
    const vacated = [...state.vacated]
    const enough = BigInt(vacated.length) + amount
    for (; slots > 0n && vacated.length < least(enough, limit.capacity); slots -= 1n) {
      if (!vacated.includes(slots)) vacated.push(slots)
    }
    return { ...state, vacated }
  },
  charge(state, limit, amount, now) {
    const places = queue.free(state, limit, now) + (state === undefined ? 1n : 0n)
    const units = least(amount, places)
    return limit.capacity === 0n || units <= 0n ? undefined : queue.spend(state, limit, units, now)
  },
}

/** Units whose slot is still to come. */
function aheadOf(state: ExactQueue, limit: ExactLimit, now: bigint): bigint {
  const parts = ceilOf(state.next - now, limit.tickUs) * limit.p + state.part
  return ceilOf(parts, limit.q) - 1n
}

/** Moves the next free slot by `slots`; a negative number moves it earlier. */
function advance(state: ExactQueue, limit: ExactLimit, slots: bigint): ExactQueue {
  const parts = state.part + slots * limit.q
  const ticks = floorOf(parts, limit.p)
  const vacated = state.vacated.map((before) => before + slots).filter((before) => before > 0n)
  return { next: state.next + ticks * limit.tickUs, part: parts - ticks * limit.p, vacated }
}

interface ExactWindow {
  readonly start: bigint
  readonly curr: bigint
  readonly prev: bigint
}

const startOf = (at: bigint, limit: ExactLimit): bigint => at - (at % limit.windowUs)
const windowAt = (state: ExactWindow | undefined, now: bigint): bigint =>
  most(state?.start ?? now, now)

/** Both window algorithms; a fixed window never reads the previous count. */
const windows: Model<ExactWindow> = {
  stateAt(state, limit, now) {
    if (state.start - now > limit.windowUs) {
      return { state: { ...state, start: startOf(now, limit) }, rebased: true }
    }
    const start = startOf(windowAt(state, now), limit)
    if (state.start >= start) return { state: { ...state, start }, rebased: false }
    const prev = state.start >= start - limit.windowUs ? state.curr : 0n
    const last = { start, curr: 0n, prev: limit.algorithm === 'fixed-window' ? 0n : prev }
    return { state: last, rebased: false }
  },
  free(state, limit, now) {
    if (state === undefined) return limit.max
    const end = state.start + limit.windowUs
    const steps = limit.windowUs / limit.scale
    const left = least(steps, ceilOf(end - windowAt(state, now), limit.scale))
    return floorOf((limit.max - state.curr) * steps - state.prev * left, steps)
  },
  admits: (state, limit, amount, now) => windows.free(state, limit, now) >= amount,
  delayUs: () => 0n,
  isReset(state, limit, now, asOf) {
    if (limit.algorithm === 'fixed-window') return now >= startOf(asOf, limit) + limit.windowUs
    return state === undefined || (state.curr === 0n && state.prev === 0n)
  },
  at: (state, now) => windowAt(state, now),
  spend: (state, limit, amount, now) => ({
    start: state?.start ?? startOf(now, limit),
    curr: (state?.curr ?? 0n) + amount,
    prev: state?.prev ?? 0n,
  }),
  give(state, limit, amount, now, at = windowAt(state, now)) {
    const from = startOf(at, limit)
    if (from === state.start) return { ...state, curr: most(0n, state.curr - amount) }
    const isLast = limit.algorithm !== 'fixed-window' && from === state.start - limit.windowUs
    return isLast ? { ...state, prev: most(0n, state.prev - amount) } : undefined
  },
  charge(state, limit, amount, now, at, debt) {
    const current = state ?? { start: startOf(now, limit), curr: 0n, prev: 0n }
    const raise = (count: bigint) => most(count, least(count + amount, limit.max + debt))
    if (at >= current.start) return { ...current, curr: raise(current.curr) }
    const isLast = limit.algorithm !== 'fixed-window' && at >= current.start - limit.windowUs
    return isLast ? { ...current, prev: raise(current.prev) } : undefined
  },
}

type ExactCallerWindow = Pick<ExactWindow, 'start' | 'curr'>

/** Windows that begin with the first call; undefined is a caller without an open window. */
const callerWindows: Model<ExactCallerWindow> = {
  stateAt(state, limit, now) {
    if (state.curr === 0n) return { state: undefined, rebased: false }
    if (state.start - now > limit.windowUs)
      return { state: { ...state, start: now }, rebased: true }
    const isOver = now - state.start >= limit.windowUs
    return { state: isOver ? undefined : state, rebased: false }
  },
  free: (state, limit) => limit.max - (state?.curr ?? 0n),
  admits: (state, limit, amount, now) => callerWindows.free(state, limit, now) >= amount,
  delayUs: () => 0n,
  isReset: (state) => state === undefined,
  at: (state, now) => most(state?.start ?? now, now),
  spend: (state, _limit, amount, now) => ({
    start: state?.start ?? now,
    curr: (state?.curr ?? 0n) + amount,
  }),
  give(state, limit, amount, now, at = most(state.start, now)) {
    const isWithin = at >= state.start && at - state.start < limit.windowUs
    return isWithin ? { ...state, curr: most(0n, state.curr - amount) } : undefined
  },
  charge(state, limit, amount, now, at, debt) {
    const { start, curr } = state ?? { start: now, curr: 0n }
    if (most(start, now) - at >= limit.windowUs) return undefined
    const begun = start > now ? start : least(start, at)
    return { start: begun, curr: most(curr, least(curr + amount, limit.max + debt)) }
  },
}

function calendarWindowOf(at: bigint, { calendar }: ExactLimit): readonly [bigint, bigint] {
  if (calendar === undefined) throw new Error('no calendar')
  const { start, end } = searchCalendarWindow(calendar, Number(at))
  return [BigInt(start), BigInt(end)]
}

/** Days, weeks or months; a state that ended is undefined. `start` is that of the first unit. */
const calendarWindows: Model<ExactCallerWindow> = {
  stateAt(state, limit, now) {
    if (state.start - now > limit.windowUs)
      return { state: { ...state, start: now }, rebased: true }
    const [opened] = calendarWindowOf(most(state.start, now), limit)
    return { state: state.start < opened ? undefined : state, rebased: false }
  },
  free: (state, limit) => limit.max - (state?.curr ?? 0n),
  admits: (state, limit, amount, now) => calendarWindows.free(state, limit, now) >= amount,
  delayUs: () => 0n,
  isReset: (_state, limit, now, asOf) => now >= calendarWindowOf(asOf, limit)[1],
  at: (state, now) => most(state?.start ?? now, now),
  spend: (state, _limit, amount, now) => ({
    start: state?.start ?? now,
    curr: (state?.curr ?? 0n) + amount,
  }),
  give(state, limit, amount, now, at = most(state.start, now)) {
    const [opened, ends] = calendarWindowOf(most(state.start, now), limit)
    if (state.curr === 0n || at < opened || at >= ends) return undefined
    return { ...state, curr: most(0n, state.curr - amount) }
  },
  charge(state, limit, amount, now, at, debt) {
    const { start, curr } = state ?? { start: now, curr: 0n }
    if (at < calendarWindowOf(most(start, now), limit)[0]) return undefined
    const begun = start > now ? start : least(start, at)
    return { start: begun, curr: most(curr, least(curr + amount, limit.max + debt)) }
  },
}

interface ExactEntry {
  readonly at: bigint
  readonly units: bigint
}

type ExactLog = readonly ExactEntry[]

/** The largest debt of a log, whatever a charge allows. */
const LOG_DEBT_MAX = 10_000n

const countOf = (log: ExactLog | undefined): bigint =>
  (log ?? []).reduce((sum, entry) => sum + entry.units, 0n)
const newestOf = (log: ExactLog | undefined, now: bigint): bigint =>
  (log ?? []).reduce((newest, entry) => most(newest, entry.at), now)

const entries: Model<ExactLog> = {
  stateAt(state, limit, now) {
    const rebased = newestOf(state, now) - now > limit.windowUs
    const log = rebased ? state.map((entry) => ({ ...entry, at: least(entry.at, now) })) : state
    const since = newestOf(log, now) - limit.windowUs
    const kept = log.filter((entry) => entry.at > since)
    return { state: kept, rebased }
  },
  free: (state, limit) => limit.max - countOf(state),
  admits: (state, limit, amount) => entries.free(state, limit, 0n) >= amount,
  delayUs: () => 0n,
  isReset: (state) => countOf(state) === 0n,
  at: newestOf,
  spend: (state, _limit, amount, now) => [
    ...(state ?? []),
    { at: newestOf(state, now), units: amount },
  ],
  give(state, _limit, amount, _now, at) {
    if (at !== undefined && !state.some((entry) => entry.at === at)) return undefined
    let back = amount
    const oldestFirst = [...state].sort((a, b) => Number(a.at - b.at))
    const lessened = oldestFirst.map((entry) => {
      const taken = at === undefined || entry.at === at ? least(back, entry.units) : 0n
      back -= taken
      return { ...entry, units: entry.units - taken }
    })
    return lessened.filter((entry) => entry.units > 0n)
  },
  charge(state, limit, amount, now, at, debt) {
    const newest = newestOf(state, now)
    const spentAt = least(at, newest)
    const units = least(amount, limit.max + least(debt, LOG_DEBT_MAX) - countOf(state))
    if (units <= 0n || spentAt <= newest - limit.windowUs) return undefined
    return [...(state ?? []), { at: spentAt, units }]
  },
}

/** Returns the first whole number for which `holds` is true, given that it then stays true. */
export function firstFrom(from: bigint, holds: (n: bigint) => boolean): bigint {
  if (holds(from)) return from
  let step = 1n
  while (!holds(from + step)) step *= 2n
  let low = from + step / 2n
  let high = from + step
  while (high - low > 1n) {
    const middle = (low + high) / 2n
    if (holds(middle)) high = middle
    else low = middle
  }
  return high
}

const MODELS: Readonly<Record<RateModuleName, unknown>> = {
  'token-bucket': bucket,
  gcra: bucket,
  'leaky-bucket': queue,
  'fixed-window': windows,
  'sliding-window-counter': windows,
  'sliding-window-log': entries,
  'caller-window': callerWindows,
  'calendar-window': calendarWindows,
}

/** Returns the model of a limit with an opaque state type. */
export function modelOf(limit: Limit): Model<unknown> {
  return MODELS[algorithmOf(limit).lua as RateModuleName] as Model<unknown>
}

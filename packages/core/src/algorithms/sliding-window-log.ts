/**
 * Sliding window log: the time of every unit admitted. It is exact in any interval, at the price of
 * memory; an entry made at t no longer counts at t + window.
 */
import type { Limit, LimitProblem, LimitSpec } from '../limit.js'
import { usToMsUp } from '../numbers.js'
import { type Algorithm, isFromAnotherClock, type Outcome, type Step } from './algorithm.js'
import { debtOf, debtProblem } from './precision.js'

/**
 * Pairs of a time and the units admitted then, oldest first, one pair per instant. A flat list,
 * because a pair of numbers takes 16 bytes and an object 70.
 */
export type Log = readonly number[]

interface View {
  readonly at: number
  readonly log: Log
  readonly count: number
  readonly rebased: boolean
}

const EMPTY: Log = []
/** The largest `max`: a log takes memory for each unit. */
const ENTRIES_MAX = 10_000
/** The most instants of a log that are shown individually. */
export const LOG_INSTANTS_SHOWN = 64

/**
 * The most that a log may owe, whatever a charge allows: with a limit of at most 10,000 units it
 * then never holds more than 20,000, and a store can give it a place of bounded size.
 */
const DEBT_MAX = 10_000

const timeOf = (log: Log, pair: number): number => log[pair] ?? 0
const unitsOf = (log: Log, pair: number): number => log[pair + 1] ?? 0

function view(log: Log | undefined, limit: Limit, now: number): View {
  if (log === undefined || log.length === 0) {
    return { at: now, log: EMPTY, count: 0, rebased: false }
  }
  const newestAt = timeOf(log, log.length - 2)
  const rebased = isFromAnotherClock(newestAt, limit, now)
  const at = rebased ? now : Math.max(now, newestAt)
  const counted = withinWindow(rebased ? rebaseLog(log, now) : log, at - limit.windowUs)
  let count = 0
  for (let pair = 0; pair < counted.length; pair += 2) count += unitsOf(counted, pair)
  return { at, log: counted, count, rebased }
}

/** Returns the entries after `edge`. */
function withinWindow(log: Log, edge: number): Log {
  let first = 0
  while (first < log.length && timeOf(log, first) <= edge) first += 2
  return first === 0 ? log : log.slice(first)
}

/**
 * Merges entries ahead of now into one at now; otherwise a give would find several for one instant.
 */
function rebaseLog(log: Log, now: number): Log {
  const rebased: number[] = []
  let ahead = 0
  for (let pair = 0; pair < log.length; pair += 2) {
    if (timeOf(log, pair) < now) rebased.push(timeOf(log, pair), unitsOf(log, pair))
    else ahead += unitsOf(log, pair)
  }
  rebased.push(now, ahead)
  return rebased
}

/** Returns the microseconds until enough entries have expired for the amount to fit. */
function waitFor(current: View, limit: Limit, amount: number, now: number): number {
  let excess = current.count + amount - limit.max
  for (let pair = 0; pair < current.log.length; pair += 2) {
    excess -= unitsOf(current.log, pair)
    if (excess <= 0) return timeOf(current.log, pair) + limit.windowUs - now
  }
  return 0
}

/** Inserts units in time order; units at an existing instant are added to it. */
function insert(log: Log, at: number, units: number): Log {
  let pair = log.length
  while (pair > 0 && timeOf(log, pair - 2) >= at) pair -= 2
  const same = pair < log.length && timeOf(log, pair) === at
  const rest = same ? pair + 2 : pair
  return [...log.slice(0, pair), at, units + (same ? unitsOf(log, pair) : 0), ...log.slice(rest)]
}

function resetAfterMs(log: Log, limit: Limit, now: number): number {
  if (log.length === 0) return 0
  return usToMsUp(timeOf(log, log.length - 2) + limit.windowUs - now)
}

function admit(current: View, limit: Limit, now: number, granted: number): Step<Log> {
  const after = granted === 0 ? current.log : insert(current.log, current.at, granted)
  return {
    granted,
    remaining: Math.max(0, limit.max - current.count - granted),
    resetAfterMs: resetAfterMs(after, limit, now),
    retryAfterMs: 0,
    delayMs: 0,
    at: current.at,
    state: granted === 0 ? undefined : after,
    rebased: current.rebased ? current.log : undefined,
  }
}

function refuse(current: View, limit: Limit, amount: number, now: number): Step<Log> {
  return {
    granted: 0,
    remaining: Math.max(0, limit.max - current.count),
    resetAfterMs: resetAfterMs(current.log, limit, now),
    retryAfterMs: amount > limit.max ? null : usToMsUp(waitFor(current, limit, amount, now)),
    delayMs: 0,
    at: current.at,
    state: undefined,
    rebased: current.rebased ? current.log : undefined,
  }
}

function take(
  log: Log | undefined,
  limit: Limit,
  amount: number,
  now: number,
  atLeast = amount,
): Step<Log> {
  const current = view(log, limit, now)
  if (amount === 0) return admit({ ...current, rebased: false }, limit, now, 0)
  const granted = Math.min(amount, limit.max - current.count)
  if (granted >= atLeast) return admit(current, limit, now, granted)
  return refuse(current, limit, atLeast, now)
}

function peek(log: Log | undefined, limit: Limit, amount: number, now: number): Outcome {
  const current = view(log, limit, now)
  if (amount === 0 || current.count + amount <= limit.max) return admit(current, limit, now, 0)
  return refuse(current, limit, amount, now)
}

function give(
  log: Log | undefined,
  limit: Limit,
  amount: number,
  now: number,
  at?: number,
): Log | undefined {
  // An empty log is none: a store may drop it.
  if (log === undefined || log.length === 0) return undefined
  const current = view(log, limit, now)
  const remainder: number[] = []
  let back = amount
  let found = at === undefined
  for (let pair = 0; pair < current.log.length; pair += 2) {
    const madeAt = timeOf(current.log, pair)
    const units = unitsOf(current.log, pair)
    const taken = at === undefined || at === madeAt ? Math.min(back, units) : 0
    found ||= at === madeAt
    back -= taken
    if (units > taken) remainder.push(madeAt, units - taken)
  }
  return found ? remainder : undefined
}

function charge(
  log: Log | undefined,
  limit: Limit,
  amount: number,
  now: number,
  at: number,
  debt: number,
): Log | undefined {
  const current = view(log, limit, now)
  const spentAt = Math.min(at, current.at)
  const units = Math.min(amount, limit.max + Math.min(debt, DEBT_MAX) - current.count)
  if (units <= 0 || spentAt <= current.at - limit.windowUs) return undefined
  return insert(current.log, spentAt, units)
}

function expiresAt(log: Log, limit: Limit): number {
  return timeOf(log, log.length - 2) + limit.windowUs
}

/**
 * Shortens a log for display: the oldest entries are merged into one at the time of the first, so
 * that the units, the oldest and the newest instant stay the same. Its Lua twin is `sayLog` in
 * lua/sliding-window-log/records.lua.
 */
export function shortenLog(log: Log): Log {
  const excess = log.length / 2 - LOG_INSTANTS_SHOWN
  if (excess <= 0) return log
  let units = 0
  for (let pair = 0; pair <= 2 * excess; pair += 2) units += unitsOf(log, pair)
  return [timeOf(log, 0), units, ...log.slice(2 * excess + 2)]
}

/** What a log owes are entries too. */
function findPrecisionProblem(spec: LimitSpec): LimitProblem | undefined {
  const { max } = spec
  return max + debtOf(spec) <= ENTRIES_MAX ? undefined : debtProblem(spec, ENTRIES_MAX - max)
}

export const slidingWindowLog: Algorithm<Log> = {
  name: 'sliding-window-log',
  format: 6,
  lua: 'sliding-window-log',
  family: 'log',
  leasable: false,
  mergeable: false,
  splittable: true,
  alignedToClock: false,
  resetsAtOnce: false,
  windowsCounted: 0,
  unitsBeyondCapacity: 0,
  holdsMax: true,
  fields: ['debt'],
  largestMax: ENTRIES_MAX,
  largestCapacity: ENTRIES_MAX,
  capacityOf: ({ max }) => max,
  prepare: ({ max }) => ({ capacity: max, maxWaitUs: 0, borrowable: 0 }),
  findPrecisionProblem,
  resize: ({ name, windowMs }, max) => ({ algorithm: 'sliding-window-log', name, windowMs, max }),
  layout: undefined,
  take,
  peek,
  give,
  charge,
  expiresAt,
}

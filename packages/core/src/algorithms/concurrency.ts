/**
 * Concurrency: at most `max` places are taken at any time. A call holds its places until somebody
 * gives them back, not for a window.
 *
 * A state has one record for each holder: a node, whatever the number of its calls. A record
 * expires one lease after its last take or renewal, so the places of a node that died are free
 * after a lease, and a node renews its record while its calls last. `at` of the units is the
 * number of their holder. A record that expires later than any lease was written by another clock:
 * it is rebased to one lease from now. A lease that was made shorter changes no record: its node
 * renews it as often as the longer one needs, until it learns of the shorter one.
 */
import type { Limit } from '../limit.js'
import { usToMsUp } from '../numbers.js'
import type { Algorithm, Outcome, Step } from './algorithm.js'

/**
 * Triples of a holder, its places and when they expire, one triple per holder. A flat list, because
 * three numbers take 24 bytes and an object 80.
 */
export type Places = readonly number[]

/** One holder of places, as operators see it. */
export interface PlaceHolder {
  readonly holder: number
  readonly places: number
  /** In milliseconds since 1970. */
  readonly expiresAtMs: number
}

/** The lease of a limit that does not name one. */
const LEASE_MS_DEFAULT = 10_000
/** A third of it must be longer than a busy store takes to answer. */
export const LEASE_MS_MIN = 1000
/** As long as this the places of a dead node stay taken. */
export const LEASE_MS_MAX = 300_000

/** More than a fleet can have in flight; a record has four bytes for its places. */
const PLACES_MAX = 1_000_000_000

/**
 * The wait of a refusal: nobody knows when a call ends, and one second is the least that
 * `Retry-After` can say.
 */
export const PLACES_RETRY_MS = 1000

/** The numbers of one record. */
const RECORD = 3
const PLACES = 1
const EXPIRES = 2

const EMPTY: Places = []

interface View {
  /** The records that have not expired. */
  readonly records: Places
  readonly count: number
  /** When the last of them expires; 0 if there is none. */
  readonly lastExpiry: number
  readonly rebased: boolean
}

function view(places: Places | undefined, limit: Limit, now: number): View {
  if (places === undefined) return { records: EMPTY, count: 0, lastExpiry: 0, rebased: false }
  const records: number[] = []
  let [count, lastExpiry, rebased] = [0, 0, false]
  for (let at = 0; at < places.length; at += RECORD) {
    const [holder = 0, held = 0, stored = 0] = [
      places[at],
      places[at + PLACES],
      places[at + EXPIRES],
    ]
    if (stored <= now) continue
    const isAhead = stored - now > Math.max(limit.windowUs, LEASE_MS_MAX * 1000)
    const expires = isAhead ? now + limit.windowUs : stored
    records.push(holder, held, expires)
    count += held
    lastExpiry = Math.max(lastExpiry, expires)
    rebased ||= isAhead
  }
  return { records, count, lastExpiry, rebased }
}

/** Returns the index of a holder's record, or -1. */
function find(records: Places, holder: number): number {
  for (let at = 0; at < records.length; at += RECORD) if (records[at] === holder) return at
  return -1
}

/** Returns the records with this one in the place of the holder's; without it for no places. */
function withRecord(records: Places, holder: number, held: number, expires: number): Places {
  const at = find(records, holder)
  const record = held === 0 ? [] : [holder, held, expires]
  if (at === -1) return [...records, ...record]
  return [...records.slice(0, at), ...record, ...records.slice(at + RECORD)]
}

function heldBy(records: Places, holder: number): number {
  const at = find(records, holder)
  return at === -1 ? 0 : (records[at + PLACES] ?? 0)
}

function outcome(
  current: View,
  limit: Limit,
  now: number,
  granted: number,
  fits: boolean | null,
): Outcome {
  const lastExpiry = granted > 0 ? now + limit.windowUs : current.lastExpiry
  return {
    granted,
    remaining: Math.max(0, limit.max - current.count - granted),
    resetAfterMs: usToMsUp(Math.max(0, lastExpiry - now)),
    retryAfterMs: fits === null ? null : fits ? 0 : PLACES_RETRY_MS,
    delayMs: 0,
    at: now,
  }
}

/** Takes all or nothing: nobody leases places ahead of calls. */
function take(
  places: Places | undefined,
  limit: Limit,
  amount: number,
  now: number,
  _atLeast?: number,
  holder = 0,
): Step<Places> {
  const current = view(places, limit, now)
  if (amount === 0) {
    return { ...outcome(current, limit, now, 0, true), state: undefined, rebased: undefined }
  }
  const { records, count } = current
  const rebased = current.rebased ? records : undefined
  if (count + amount > limit.max) {
    const fits = amount > limit.max ? null : false
    return { ...outcome(current, limit, now, 0, fits), state: undefined, rebased }
  }
  const held = heldBy(records, holder) + amount
  const state = withRecord(records, holder, held, now + limit.windowUs)
  return { ...outcome(current, limit, now, amount, true), at: holder, state, rebased }
}

function peek(places: Places | undefined, limit: Limit, amount: number, now: number): Outcome {
  const current = view(places, limit, now)
  if (amount > limit.max) return outcome(current, limit, now, 0, null)
  return outcome(current, limit, now, 0, amount === 0 || current.count + amount <= limit.max)
}

/** Gives back the places of the holder `at`; without a holder there is nothing to give back. */
function give(
  places: Places | undefined,
  limit: Limit,
  amount: number,
  now: number,
  at?: number,
): Places | undefined {
  const { records } = view(places, limit, now)
  const from = at === undefined ? -1 : find(records, at)
  if (from === -1) return undefined
  const [holder = 0, held = 0, expires = 0] = records.slice(from, from + RECORD)
  return withRecord(records, holder, Math.max(0, held - amount), expires)
}

/**
 * Renews the record of the holder `at` and makes it at least `amount` places; with a debt, exactly
 * as many. Renewing at least 0 places keeps a record that exists.
 */
function charge(
  places: Places | undefined,
  limit: Limit,
  amount: number,
  now: number,
  at: number,
  debt: number,
): Places | undefined {
  const { records } = view(places, limit, now)
  const before = heldBy(records, at)
  const wanted = Math.min(amount, PLACES_MAX)
  const held = debt > 0 ? wanted : Math.max(before, wanted)
  if (held === 0 && before === 0) return undefined
  return withRecord(records, at, held, now + limit.windowUs)
}

function expiresAt(places: Places): number {
  let last = 0
  for (let at = EXPIRES; at < places.length; at += RECORD) last = Math.max(last, places[at] ?? 0)
  return last
}

/** Lists the holders of a state. */
export function placeHolders(places: Places): readonly PlaceHolder[] {
  const holders: PlaceHolder[] = []
  for (let at = 0; at < places.length; at += RECORD) {
    const [holder = 0, held = 0, expires = 0] = places.slice(at, at + RECORD)
    holders.push({ holder, places: held, expiresAtMs: Math.ceil(expires / 1000) })
  }
  return holders
}

export const concurrency: Algorithm<Places> = {
  name: 'concurrency',
  format: 10,
  lua: 'concurrency',
  family: 'places',
  leasable: false,
  mergeable: false,
  splittable: true,
  alignedToClock: false,
  resetsAtOnce: false,
  windowsCounted: 0,
  unitsBeyondCapacity: 0,
  holdsMax: true,
  fields: ['leaseMs'],
  largestMax: PLACES_MAX,
  largestCapacity: PLACES_MAX,
  capacityOf: ({ max }) => max,
  prepare: ({ max, leaseMs = LEASE_MS_DEFAULT }) => ({
    capacity: max,
    maxWaitUs: 0,
    borrowable: 0,
    windowUs: leaseMs * 1000,
  }),
  findPrecisionProblem: () => undefined,
  resize: ({ name, windowUs }, max) => ({
    algorithm: 'concurrency',
    name,
    windowMs: 0,
    leaseMs: windowUs / 1000,
    max: Math.min(max, PLACES_MAX),
  }),
  layout: undefined,
  take,
  peek,
  give,
  charge,
  expiresAt,
}

/** Whether a limit counts calls in flight. */
export function isConcurrency({ format }: Limit): boolean {
  return format === concurrency.format
}

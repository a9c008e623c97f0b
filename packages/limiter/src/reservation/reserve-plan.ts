/** Plans what a reserve or an extension takes, and lists what it took. */
import {
  amountOf,
  type Attributes,
  candidateId,
  type ChargedEntry,
  chargedEntry,
  type CompiledLimit,
  extensionKey,
  type Hash64,
  isBlock,
  madeKey,
  type Outcome,
  passes,
  type Plan,
  type PlannedTake,
  type ReservationHandle,
  reservationId,
  type ReservedEntry,
  SluiceError,
  type Snapshot,
} from '@sluice/core'
import { findLimit, underSameCeiling } from '../refund.js'
import type { Groups } from '../store.js'
import { extendedLimit, extendedTake, madeAmount, madeLimit, settledTake } from './once-counters.js'
import type { ExtendRequest, ReserveRequest } from './reserve-options.js'

/** A plan that reserves or extends, and what its decision needs to write the handle. */
export interface ReservePlan extends Plan {
  readonly reserve: PlannedReserve
}

export interface PlannedReserve {
  readonly id: Hash64
  readonly partition: number
  readonly ttlMs: number
  /**
   * The first takes of the first group: `once`, and of an extension a gate, which is refused if the
   * reservation was settled.
   */
  readonly marks: readonly PlannedTake[]
  /** With an idempotency key: is refused if the same was reserved, or extended, before. */
  readonly once: PlannedTake | undefined
  /** Of an extension: the handle that it replaces. */
  readonly before: ReservationHandle | undefined
}

const NO_MARKS: readonly PlannedTake[] = []

/**
 * A reserve that nobody can repeat, which needs no marks. A class, not an object literal, because
 * it lives while a call waits.
 */
export class UnmarkedReserve implements PlannedReserve {
  readonly id: Hash64
  readonly partition: number
  readonly ttlMs: number
  readonly marks = NO_MARKS
  readonly once = undefined
  readonly before = undefined

  constructor(id: Hash64, partition: number, ttlMs: number) {
    this.id = id
    this.partition = partition
    this.ttlMs = ttlMs
  }
}

/** The same as a plan. */
class UnmarkedPlan implements ReservePlan {
  readonly matched: ReservePlan['matched']
  readonly groups: ReservePlan['groups']
  readonly shadows: ReservePlan['shadows']
  readonly reserve: PlannedReserve

  constructor({ matched, groups, shadows }: Plan, reserve: PlannedReserve) {
    this.matched = matched
    this.groups = groups
    this.shadows = shadows
    this.reserve = reserve
  }
}

export function isReservePlan(plan: Plan): plan is ReservePlan {
  return 'reserve' in plan
}

/** Adds what makes a plan a reservation. */
export function planReserve(
  plan: Plan,
  { ttlMs, idempotencyKey }: ReserveRequest,
  { secret }: Snapshot,
  randomId: () => Hash64,
): ReservePlan {
  const { matched, groups } = plan
  const counted = firstCounted(groups)
  const first = counted[0]
  const partition = first?.key.partition ?? 0
  if (idempotencyKey === undefined || first === undefined) {
    return new UnmarkedPlan(plan, new UnmarkedReserve(randomId(), partition, ttlMs))
  }
  const callers = matched.map(({ caller }) => caller)
  const id = reservationId(secret, callers, idempotencyKey)
  const once: PlannedTake = {
    key: madeKey(id, partition),
    limit: madeLimit(ttlMs),
    amount: madeAmount(secret, counted, ttlMs),
    compiled: markOf(first.compiled),
    isMark: true,
  }
  return withMarks(plan, { id, partition, ttlMs, once, marks: [once], before: undefined })
}

function firstCounted(groups: Groups<PlannedTake>): readonly PlannedTake[] {
  for (let i = 0; i < groups.length; i++) {
    const takes = groups[i]
    if (takes !== undefined && takes.length > 0) return takes
  }
  return NO_MARKS
}

/**
 * Plans the takes of an extension: more of the costs that the attributes name, under the ceilings
 * of the reserve. If the reservation `isRefunded` when it expires, the node that will do that must
 * know that it was extended.
 */
export function planExtend(
  handle: ReservationHandle,
  { attributes, idempotencyKey }: ExtendRequest,
  snapshot: Snapshot,
  isRefunded: boolean,
): ReservePlan {
  const { id, partition, ttlMs } = handle
  // Places, which have no window, are no cost: they stay as they are.
  const entries = handle.entries.filter(({ windowMs }) => windowMs !== 0)
  const seen = new Set<string>()
  const takes = entries.flatMap((entry) => {
    const name = `${entry.key.hi}.${entry.key.lo}`
    const amount = entry.cost === undefined ? 0 : readUnits(attributes, entry.cost)
    const whole = amount === 0 || seen.has(name) ? undefined : findLimit(snapshot, entry)
    if (whole === undefined) return []
    seen.add(name)
    const compiled = underSameCeiling(whole, entry)
    const take: PlannedTake = { key: entry.key, limit: compiled.limit, amount, compiled }
    return [{ entry, take }]
  })
  const first = takes[0]?.take
  if (first === undefined) throw nothingToExtend(entries)
  const enforced = takes.filter(({ entry }) => !entry.isShadow).map(({ take }) => take)
  const shadows = new Map<string, PlannedTake[]>()
  for (const { entry, take } of takes) {
    if (!entry.isShadow) continue
    const name = entry.candidate ? candidateId(entry.rule) : entry.rule
    shadows.set(name, [...(shadows.get(name) ?? []), take])
  }
  const mark = { compiled: markOf(first.compiled), isMark: true }
  const once: PlannedTake | undefined =
    idempotencyKey === undefined
      ? undefined
      : {
          ...mark,
          key: extensionKey(snapshot.secret, handle, idempotencyKey),
          limit: extendedLimit(ttlMs),
          amount: madeAmount(snapshot.secret, enforced.length > 0 ? enforced : [first], ttlMs),
        }
  const gate: PlannedTake = { ...settledTake(handle), ...mark, amount: 0, gate: true }
  const gates = isRefunded ? [gate, { ...extendedTake(handle), ...mark }] : [gate]
  const marks = once === undefined ? gates : [once, ...gates]
  const plan = {
    matched: [],
    groups: [enforced, ...shadows.values()],
    shadows: [...shadows.keys()],
  }
  return withMarks(plan, { id, partition, ttlMs, once, marks, before: handle })
}

/**
 * A mark is decided by the store alone. Where that does not answer it says nothing: the limits
 * decide by their postures, and the mark is not charged later.
 */
function markOf(compiled: CompiledLimit): CompiledLimit {
  const isolated = { coordination: 'exact', posture: 'open', durable: false } as const
  return { ...compiled, ...isolated, block: undefined, field: '' }
}

function withMarks({ matched, groups, shadows }: Plan, reserve: PlannedReserve): ReservePlan {
  const [first = [], ...others] = groups
  return { matched, groups: [[...reserve.marks, ...first], ...others], shadows, reserve }
}

export function withoutMarks({ matched, groups, shadows, reserve }: ReservePlan): ReservePlan {
  const [first = [], ...others] = groups
  return { matched, groups: [first.slice(reserve.marks.length), ...others], shadows, reserve }
}

/** What can be settled of a decision, and the limits it was taken from. */
export interface Reserved {
  readonly entries: readonly ReservedEntry[]
  readonly limits: readonly CompiledLimit[]
}

/**
 * Lists the limits of a reserve and what each was taken from; also those of an estimate of 0, whose
 * use is charged too, and those that keep what they counted, whose costs are known by that. A
 * node keeps what it counts without the store, unless that is in this process.
 */
export function reservedOf(
  plan: ReservePlan,
  outcomes: Groups<Outcome>,
  isStoreHere: boolean,
): Reserved {
  const entries: ReservedEntry[] = []
  const limits: CompiledLimit[] = []
  for (let group = 0; group < plan.groups.length; group++) {
    const takes = plan.groups[group] ?? []
    const answers = outcomes[group]
    const isOpen = answers !== undefined && passes(answers)
    for (let i = 0; i < takes.length; i++) {
      const take = takes[i]
      if (take === undefined || isBlock(take.limit)) continue
      const outcome = answers?.[i] ?? NOT_TAKEN
      const { coordination } = take.compiled
      const isOfStore = isStoreHere || coordination === 'exact' || coordination === 'leased'
      const isKept = !isOpen || !isOfStore
      const entry = chargedEntry(plan, group, take, outcome)
      entries.push(reservedEntry(entry, costOf(plan, entry), group > 0, isKept))
      limits.push(take.compiled)
    }
  }
  return { entries, limits }
}

/** Not by a spread, which costs several times as much. */
function reservedEntry(
  { rule, limitName, candidate, max, windowMs, capacity, key, amount, at }: ChargedEntry,
  cost: string | undefined,
  isShadow: boolean,
  isKept: boolean,
): ReservedEntry {
  return {
    rule,
    limitName,
    candidate,
    max,
    windowMs,
    capacity,
    key,
    amount,
    at,
    cost,
    isShadow,
    isKept,
  }
}

/** The outcome of a take whose group was refused before the store was asked. */
const NOT_TAKEN = { granted: 0, at: 0 }

/** The attribute that the cost of an entry comes from; of an extension, the one of its reserve. */
function costOf({ matched, reserve }: ReservePlan, { rule, key }: ChargedEntry) {
  if (reserve.before !== undefined) {
    for (const entry of reserve.before.entries) {
      if (entry.key.hi === key.hi && entry.key.lo === key.lo) return entry.cost
    }
  }
  for (let i = 0; i < matched.length; i++) {
    const found = matched[i]?.rule
    if (found?.id !== rule) continue
    return typeof found.cost === 'object' ? found.cost.attribute : undefined
  }
  return undefined
}

function readUnits(attributes: Attributes, attribute: string): number {
  const amount = amountOf({ attribute }, { attributes }, 0)
  if (typeof amount === 'number') return amount
  throw amount
}

function nothingToExtend(entries: readonly ReservedEntry[]): SluiceError {
  const names = [...new Set(entries.flatMap(({ cost }) => cost ?? []))]
  const accepted = names.length === 0 ? 'none: no rule has a cost attribute' : names.join(', ')
  return new SluiceError(
    'CALL_COST_INVALID',
    `attributes: found none of the reservation's costs; accepted: ${accepted}`,
  )
}

/** Plans what a reserve or an extension takes, and lists what it took. */
import {
  type Attributes,
  candidateId,
  type ChargedEntry,
  type CompiledLimit,
  grantedTakes,
  type Hash64,
  isBlock,
  type Outcome,
  type Plan,
  type PlannedTake,
  readAttribute,
  type ReservationHandle,
  reservationId,
  reservationKeys,
  type ReservedEntry,
  show,
  SluiceError,
  type Snapshot,
} from '@sluice/core'
import { findLimit } from '../refund.js'
import type { Groups } from '../store.js'
import { madeAmount, madeLimit, settledLimit } from './once-counters.js'
import type { ReserveRequest } from './reserve-options.js'

/** A plan that reserves or extends, and what its decision needs to write the handle. */
export interface ReservePlan extends Plan {
  readonly reserve: PlannedReserve
}

export interface PlannedReserve {
  readonly id: Hash64
  readonly partition: number
  readonly ttlMs: number
  /** The first take of the first group, which marks or gates the reservation; undefined: none. */
  readonly mark: PlannedTake | undefined
  /** Of an extension: what was reserved before. */
  readonly before: readonly ReservedEntry[]
}

const NO_ENTRIES: readonly ReservedEntry[] = []

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
  const { matched, groups, shadows } = plan
  const first = firstTake(groups)
  const partition = first?.key.partition ?? 0
  if (idempotencyKey === undefined || first === undefined) {
    const reserve = { id: randomId(), partition, ttlMs, mark: undefined, before: NO_ENTRIES }
    return { matched, groups, shadows, reserve }
  }
  const callers = matched.map(({ caller }) => caller)
  const id = reservationId(secret, callers, idempotencyKey)
  const amounts = groups.flat().map(({ amount }) => amount)
  const mark: PlannedTake = {
    key: reservationKeys(id, partition).made,
    limit: madeLimit(ttlMs),
    amount: madeAmount(secret, amounts),
    compiled: markOf(first.compiled),
  }
  return withMark(plan, { id, partition, ttlMs, mark, before: NO_ENTRIES })
}

/** Plans the takes of an extension: more of the costs that the attributes name. */
export function planExtend(
  handle: ReservationHandle,
  attributes: Attributes,
  snapshot: Snapshot,
): ReservePlan {
  const { id, partition, ttlMs, entries } = handle
  const seen = new Set<string>()
  const takes = entries.flatMap((entry) => {
    const name = `${entry.key.hi}.${entry.key.lo}`
    const amount = entry.cost === undefined ? 0 : readUnits(attributes, entry.cost)
    const compiled = amount === 0 || seen.has(name) ? undefined : findLimit(snapshot, entry)
    if (compiled === undefined) return []
    seen.add(name)
    const take: PlannedTake = { key: entry.key, limit: compiled.limit, amount, compiled }
    return [{ entry, take }]
  })
  const first = takes[0]?.take
  if (first === undefined) throw nothingToExtend(entries)
  const enforced = takes.filter(({ entry }) => !entry.isShadow).map(({ take }) => take)
  const shadows = takes.filter(({ entry }) => entry.isShadow)
  const mark: PlannedTake = {
    key: reservationKeys(id, partition).settled,
    limit: settledLimit(ttlMs),
    amount: 0,
    gate: true,
    compiled: markOf(first.compiled),
  }
  const plan = {
    matched: [],
    groups: [enforced, ...shadows.map(({ take }) => [take])],
    shadows: shadows.map(({ entry: { rule, candidate } }) =>
      candidate ? candidateId(rule) : rule,
    ),
  }
  return withMark(plan, { id, partition, ttlMs, mark, before: entries })
}

function firstTake(groups: Groups<PlannedTake>): PlannedTake | undefined {
  for (const takes of groups) if (takes[0] !== undefined) return takes[0]
  return undefined
}

/** A mark is decided by the store alone, and otherwise like the rule that it stands beside. */
function markOf(compiled: CompiledLimit): CompiledLimit {
  return { ...compiled, coordination: 'exact', durable: false, block: undefined, field: '' }
}

function withMark({ matched, groups, shadows }: Plan, reserve: PlannedReserve): ReservePlan {
  const [first = [], ...others] = groups
  const marked = reserve.mark === undefined ? first : [reserve.mark, ...first]
  return { matched, groups: [marked, ...others], shadows, reserve }
}

export function withoutMark({ matched, groups, shadows, reserve }: ReservePlan): ReservePlan {
  const [first = [], ...others] = groups
  return { matched, groups: [first.slice(1), ...others], shadows, reserve }
}

/** What can be settled of a decision, and the limits it was taken from. */
export interface Reserved {
  readonly entries: readonly ReservedEntry[]
  readonly limits: readonly CompiledLimit[]
}

/**
 * Lists what was reserved. Units that a node counts without the store, unless that is in this
 * process, are left out: they stay as they were estimated.
 */
export function reservedOf(
  plan: ReservePlan,
  outcomes: Groups<Outcome>,
  isStoreHere: boolean,
): Reserved {
  const entries: ReservedEntry[] = []
  const limits: CompiledLimit[] = []
  for (const { take, group, entry } of grantedTakes(plan, outcomes)) {
    const { coordination } = take.compiled
    const isOfStore = isStoreHere || coordination === 'exact' || coordination === 'leased'
    if (isBlock(take.limit) || !isOfStore) continue
    const { rule, limitName, candidate, max, windowMs, capacity, key, amount, at } = entry
    const cost = costOf(plan, entry)
    const isShadow = group > 0
    // Not by a spread, which costs several times as much.
    entries.push({
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
    })
    limits.push(take.compiled)
  }
  return { entries, limits }
}

/** The attribute that the cost of an entry comes from; of an extension, the one of its reserve. */
function costOf({ matched, reserve }: ReservePlan, { rule, key }: ChargedEntry) {
  for (const entry of reserve.before) {
    if (entry.key.hi === key.hi && entry.key.lo === key.lo) return entry.cost
  }
  const cost = matched.find((match) => match.rule.id === rule)?.rule.cost
  return typeof cost === 'object' ? cost.attribute : undefined
}

const UNITS = /^(0|[1-9][0-9]{0,14})$/

function readUnits(attributes: Attributes, cost: string): number {
  const text = readAttribute(attributes, cost)
  if (text === undefined) return 0
  if (UNITS.test(text)) return Number(text)
  throw new SluiceError(
    'CALL_COST_INVALID',
    `attribute ${cost} must be an integer between 0 and 2^53-1, got ${show(text)}`,
  )
}

function nothingToExtend(entries: readonly ReservedEntry[]): SluiceError {
  const names = [...new Set(entries.flatMap(({ cost }) => cost ?? []))]
  const accepted = names.length === 0 ? 'none: no rule has a cost attribute' : names.join(', ')
  return new SluiceError(
    'CALL_COST_INVALID',
    `attributes: found none of the reservation's costs; accepted: ${accepted}`,
  )
}

/** Computes what settling a reservation takes and gives back, and reports what became of it. */
import {
  type CompiledLimit,
  type CounterKey,
  isCount,
  type Limit,
  type ReservationHandle,
  type ReservedEntry,
  show,
  SluiceError,
  type Snapshot,
  type Take,
} from '@sluice/core'
import type { Answer, Groups } from '../store.js'
import type { ActualCosts, SettledCost, Settlement, SettlementReason } from './reservation-types.js'

/** What a reservation holds of one counter. */
class Holding {
  readonly entry: ReservedEntry
  /** Undefined if its rule is gone: then nothing of it is changed. */
  readonly compiled: CompiledLimit | undefined
  /** The other entries of this counter, if the reservation was extended; the newest first. */
  newer: ReservedEntry[] | undefined
  reserved: number
  /** What it is to be charged for in the end. */
  units = 0

  constructor(entry: ReservedEntry, compiled: CompiledLimit | undefined) {
    this.entry = entry
    this.compiled = compiled
    this.newer = undefined
    this.reserved = entry.amount
  }

  add(entry: ReservedEntry): void {
    this.newer ??= []
    this.newer.unshift(entry)
    this.reserved += entry.amount
  }
}

/**
 * The change of one counter. A store runs each in a group of its own. A class, not an object
 * literal, because it lives while a settle waits.
 */
export class SettlingTake implements Take {
  readonly key: CounterKey
  readonly limit: Limit
  readonly amount: number
  readonly at: number | undefined
  readonly overdraw: boolean
  readonly holding: Holding

  /** An amount below 0 was taken `at`; another overdraws. */
  constructor(holding: Holding, limit: Limit, amount: number, at: number | undefined) {
    this.key = holding.entry.key
    this.limit = limit
    this.amount = amount
    this.at = at
    this.overdraw = amount > 0
    this.holding = holding
  }
}

/** The name of a cost that comes from the call itself, not from one of its attributes. */
const CALL_COST = 'cost'
const NOTHING: SettledCost = { charged: 0, givenBack: 0, owed: 0 }

export class SettlementPlan {
  readonly takes: readonly SettlingTake[]
  readonly #holdings: readonly Holding[]
  readonly #reason: 'settled' | 'cancelled'

  /** `limits` has the limit of each entry. Without `actual` everything is given back. */
  constructor(
    entries: readonly ReservedEntry[],
    limits: readonly (CompiledLimit | undefined)[],
    snapshot: Snapshot,
    actual: ActualCosts | undefined,
  ) {
    const costs = actual === undefined ? undefined : readActual(entries, actual)
    this.#reason = actual === undefined ? 'cancelled' : 'settled'
    this.#holdings = holdingsOf(entries, limits)
    const takes: SettlingTake[] = []
    for (const holding of this.#holdings) {
      holding.units = unitsOf(snapshot, holding, costs)
      addTakes(takes, holding)
    }
    this.takes = takes
  }

  /** What is sent to the store: the marks open the changes, each in a group of its own. */
  groupsAfter(marks: readonly Take[]): Groups<Take> {
    const groups: (readonly Take[])[] = [marks]
    for (const take of this.takes) groups.push([take])
    return groups
  }

  /** The report, given the answer to each take. `owedBy` says how far a limit is below empty. */
  report(
    answers: readonly (Answer | undefined)[],
    owedBy: (take: SettlingTake) => number,
  ): Settlement {
    const costs: NamedCost[] = []
    for (const { entry, reserved, units } of this.#holdings) {
      if (!isCost(entry) || entry.isKept || units > reserved) continue
      addCost(costs, entry, units, reserved - units, 0)
    }
    for (let i = 0; i < this.takes.length; i++) {
      const take = this.takes[i]
      if (take === undefined || take.amount < 0 || take.holding.entry.isShadow) continue
      const { entry, reserved } = take.holding
      const answer = answers[i]
      const added = typeof answer === 'object' ? answer.granted : take.amount
      addCost(costs, entry, reserved + added, 0, Math.min(added, owedBy(take)))
    }
    addKept(costs, this.#holdings)
    return settlementOf(this.#reason, costs)
  }
}

/** The report of a reservation that this call did not change. */
export function unchanged({ entries }: ReservationHandle, reason: SettlementReason): Settlement {
  const costs: NamedCost[] = []
  for (const { entry, reserved } of holdingsOf(entries, [])) {
    if (isCost(entry)) addCost(costs, entry, reason === 'expired' ? reserved : 0, 0, 0)
  }
  return settlementOf(reason, costs)
}

/** What a reservation holds of each cost, by the limit that it holds most of. */
export function reservedCosts({ entries }: ReservationHandle): Readonly<Record<string, number>> {
  const costs = new Map<string, number>()
  for (const { entry, reserved } of holdingsOf(entries, [])) {
    if (entry.isKept || isPlaces(entry)) continue
    const name = nameOf(entry)
    costs.set(name, Math.max(reserved, costs.get(name) ?? 0))
  }
  return Object.fromEntries(costs)
}

/** What a settlement reports of one cost. */
class NamedCost implements SettledCost {
  readonly name: string
  charged: number
  givenBack: number
  owed: number

  constructor(name: string, charged: number, givenBack: number, owed: number) {
    this.name = name
    this.charged = charged
    this.givenBack = givenBack
    this.owed = owed
  }
}

function settlementOf(reason: SettlementReason, all: readonly NamedCost[]): Settlement {
  const settled = reason === 'settled' || reason === 'cancelled'
  // The cost of the call counts only where no attribute does: most rule sets count calls besides.
  let hasAttribute = false
  for (const { name } of all) if (name !== CALL_COST) hasAttribute = true
  const costs: Record<string, SettledCost> = {}
  let { charged, givenBack, owed } = NOTHING
  for (const cost of all) {
    if (hasAttribute && cost.name === CALL_COST) continue
    setCost(costs, cost)
    charged += cost.charged
    givenBack += cost.givenBack
    owed += cost.owed
  }
  return { settled, reason, charged, givenBack, owed, costs }
}

/** An attribute may be named `__proto__`: an assignment would set the prototype. */
function setCost(
  costs: Record<string, SettledCost>,
  { name, charged, givenBack, owed }: NamedCost,
): void {
  const value = { charged, givenBack, owed }
  if (name !== '__proto__') costs[name] = value
  else Object.defineProperty(costs, name, { value, enumerable: true })
}

/** The report of a reserve that was refused. */
export const REFUSED: Settlement = settlementOf('refused', [])

/** Adds the costs of which nothing can be settled. */
function addKept(costs: NamedCost[], holdings: readonly Holding[]): void {
  for (const { entry, reserved } of holdings) {
    const isKnown = !entry.isKept || costOf(costs, nameOf(entry)) !== undefined
    if (!isKnown && isCost(entry)) addCost(costs, entry, reserved, 0, 0)
  }
}

function costOf(costs: readonly NamedCost[], name: string): NamedCost | undefined {
  for (let i = 0; i < costs.length; i++) if (costs[i]?.name === name) return costs[i]
  return undefined
}

/** Several limits may count one cost; it is reported once, by the limit where it weighs most. */
function addCost(
  costs: NamedCost[],
  entry: ReservedEntry,
  charged: number,
  givenBack: number,
  owed: number,
): void {
  const name = nameOf(entry)
  const known = costOf(costs, name)
  if (known === undefined) {
    costs.push(new NamedCost(name, charged, givenBack, owed))
    return
  }
  known.charged = Math.max(known.charged, charged)
  known.givenBack = Math.max(known.givenBack, givenBack)
  known.owed = Math.max(known.owed, owed)
}

/** Whether the caller is told of it. Limits in shadow say nothing, and places are no cost. */
function isCost(entry: ReservedEntry): boolean {
  return !entry.isShadow && !isPlaces(entry)
}

/** Limits of concurrency have no window. */
function isPlaces({ windowMs }: ReservedEntry): boolean {
  return windowMs === 0
}

function nameOf({ cost }: ReservedEntry): string {
  return cost ?? CALL_COST
}

/**
 * Adds up the entries of each counter, apart from those that it keeps; few have more than some.
 */
function holdingsOf(
  entries: readonly ReservedEntry[],
  limits: readonly (CompiledLimit | undefined)[],
): readonly Holding[] {
  const holdings: Holding[] = []
  for (let i = 0; i < entries.length; i++) {
    const entry = entries[i]
    if (entry === undefined) continue
    const known = holdingOf(holdings, entry)
    if (known === undefined) holdings.push(new Holding(entry, limits[i]))
    else known.add(entry)
  }
  return holdings
}

function holdingOf(
  holdings: readonly Holding[],
  { key, isKept }: ReservedEntry,
): Holding | undefined {
  for (const holding of holdings) {
    const { key: other, isKept: isOtherKept } = holding.entry
    if (other.hi === key.hi && other.lo === key.lo && isOtherKept === isKept) return holding
  }
  return undefined
}

/** The units that a counter is to be charged for in the end. */
function unitsOf(
  snapshot: Snapshot,
  { entry, compiled, reserved }: Holding,
  costs: UsedUnits | undefined,
): number {
  if (entry.isKept || compiled === undefined) return reserved
  // The call has ended, whatever it used: its places are free.
  if (costs === undefined || isPlaces(entry)) return 0
  const actual = costs.get(nameOf(entry))
  if (actual === undefined) return reserved
  const cost = snapshot.byId.get(entry.rule)?.cost
  if (entry.cost !== undefined || typeof cost !== 'number') return actual
  requireUnits(`actual times the cost of rule ${entry.rule}`, actual * cost)
  return actual * cost
}

/** Gives back the newest units first: those are the most likely to count still. */
function addTakes(takes: SettlingTake[], holding: Holding): void {
  const { entry, compiled, reserved, newer, units } = holding
  if (compiled === undefined) return
  const { limit } = compiled
  if (units > reserved) {
    takes.push(new SettlingTake(holding, limit, units - reserved, undefined))
    return
  }
  let left = reserved - units
  for (const part of newer ?? NO_ENTRIES) left = giveBack(takes, holding, limit, part, left)
  giveBack(takes, holding, limit, entry, left)
}

const NO_ENTRIES: readonly ReservedEntry[] = []

/** Gives back up to `left` of one entry; returns what is left then. */
function giveBack(
  takes: SettlingTake[],
  holding: Holding,
  limit: Limit,
  { amount, at }: ReservedEntry,
  left: number,
): number {
  const back = Math.min(left, amount)
  if (back > 0) takes.push(new SettlingTake(holding, limit, -back, at))
  return left - back
}

/** What was used, by the name of the cost. */
interface UsedUnits {
  get(name: string): number | undefined
}

/** A `Map` of one cost, which most calls have. */
class OneCost implements UsedUnits {
  readonly #name: string
  readonly #units: number

  constructor(name: string, units: number) {
    this.#name = name
    this.#units = units
  }

  get(name: string): number | undefined {
    return name === this.#name ? this.#units : undefined
  }
}

function readActual(entries: readonly ReservedEntry[], actual: ActualCosts): UsedUnits {
  if (typeof actual !== 'object' || actual === null) {
    const [only = CALL_COST, ...others] = attributesOf(entries)
    requireUnits('actual', actual)
    if (others.length === 0) return new OneCost(only, actual)
    throw invalid(`found a number; accepted: one for each of ${[only, ...others].join(', ')}`)
  }
  const accepted = [...attributesOf(entries), CALL_COST]
  const costs = new Map<string, number>()
  for (const [name, units] of Object.entries(actual)) {
    if (entries.length > 0 && !accepted.includes(name)) {
      throw invalid(`found "${show(name)}"; accepted: ${accepted.join(', ')}`)
    }
    requireUnits(`actual.${show(name)}`, units)
    costs.set(name, units)
  }
  return costs
}

/** The cost attributes of the entries. */
function attributesOf(entries: readonly ReservedEntry[]): readonly string[] {
  const attributes: string[] = []
  for (const { cost } of entries) {
    if (cost !== undefined && !attributes.includes(cost)) attributes.push(cost)
  }
  return attributes
}

/**
 * Refuses a settle that does not say what was used: an answer that lacks its usage must not give
 * everything back.
 */
export function requireActual(actual: ActualCosts | undefined): void {
  if (actual === undefined) requireUnits('actual', actual)
}

function requireUnits(place: string, units: unknown): asserts units is number {
  if (isCount(units)) return
  throw new SluiceError(
    'CALL_COST_INVALID',
    `${place} must be an integer between 0 and 2^53-1, got ${show(units)}`,
  )
}

function invalid(why: string): SluiceError {
  return new SluiceError('CALL_COST_INVALID', `actual: ${why}`)
}

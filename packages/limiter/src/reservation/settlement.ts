/** Computes what settling a reservation takes and gives back, and reports what became of it. */
import {
  type CompiledLimit,
  isCount,
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
interface Holding {
  readonly entry: ReservedEntry
  /** Undefined if its rule is gone: then nothing of it is changed. */
  readonly compiled: CompiledLimit | undefined
  /** The entries of this counter, several if the reservation was extended; the newest first. */
  readonly parts: ReservedEntry[]
  reserved: number
  /** What it is to be charged for in the end. */
  units: number
}

/** The change of one counter. A store runs each in a group of its own. */
export interface SettlingTake extends Take {
  readonly holding: Holding
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
    this.takes.forEach((take, i) => {
      const { entry, reserved } = take.holding
      if (take.amount < 0 || entry.isShadow) return
      const answer = answers[i]
      const added = typeof answer === 'object' ? answer.granted : take.amount
      addCost(costs, entry, reserved + added, 0, Math.min(added, owedBy(take)))
    })
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

interface NamedCost extends SettledCost {
  readonly name: string
}

function settlementOf(reason: SettlementReason, all: readonly NamedCost[]): Settlement {
  const settled = reason === 'settled' || reason === 'cancelled'
  // The cost of the call counts only where no attribute does: most rule sets count calls besides.
  const hasAttribute = all.some(({ name }) => name !== CALL_COST)
  const costs: Record<string, SettledCost> = {}
  let { charged, givenBack, owed } = NOTHING
  for (const cost of all) {
    if (hasAttribute && cost.name === CALL_COST) continue
    Object.defineProperty(costs, cost.name, {
      value: { charged: cost.charged, givenBack: cost.givenBack, owed: cost.owed },
      enumerable: true,
    })
    charged += cost.charged
    givenBack += cost.givenBack
    owed += cost.owed
  }
  return { settled, reason, charged, givenBack, owed, costs }
}

/** The report of a reserve that was refused. */
export const REFUSED: Settlement = settlementOf('refused', [])

/** Adds the costs of which nothing can be settled. */
function addKept(costs: NamedCost[], holdings: readonly Holding[]): void {
  for (const { entry, reserved } of holdings) {
    const isKnown = !entry.isKept || costs.some(({ name }) => name === nameOf(entry))
    if (!isKnown && isCost(entry)) addCost(costs, entry, reserved, 0, 0)
  }
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
  const index = costs.findIndex((cost) => cost.name === name)
  const before = costs[index]
  if (before === undefined) {
    costs.push({ name, charged, givenBack, owed })
    return
  }
  costs[index] = {
    name,
    charged: Math.max(before.charged, charged),
    givenBack: Math.max(before.givenBack, givenBack),
    owed: Math.max(before.owed, owed),
  }
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
  entries.forEach((entry, i) => {
    const { key, isKept } = entry
    const known = holdings.find(({ entry: other }) => {
      return other.key.hi === key.hi && other.key.lo === key.lo && other.isKept === isKept
    })
    if (known === undefined) {
      const { amount } = entry
      holdings.push({ entry, compiled: limits[i], parts: [entry], reserved: amount, units: 0 })
      return
    }
    known.parts.unshift(entry)
    known.reserved += entry.amount
  })
  return holdings
}

/** The units that a counter is to be charged for in the end. */
function unitsOf(
  snapshot: Snapshot,
  { entry, compiled, reserved }: Holding,
  costs: ReadonlyMap<string, number> | undefined,
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
  const { entry, compiled, reserved, parts, units } = holding
  if (compiled === undefined) return
  const { limit } = compiled
  const { key } = entry
  if (units > reserved) {
    takes.push({ key, limit, amount: units - reserved, overdraw: true, holding })
    return
  }
  let left = reserved - units
  for (const { amount, at } of parts) {
    const back = Math.min(left, amount)
    left -= back
    if (back > 0) takes.push({ key, limit, amount: -back, at, holding })
  }
}

function readActual(
  entries: readonly ReservedEntry[],
  actual: ActualCosts,
): ReadonlyMap<string, number> {
  const attributes: string[] = []
  for (const { cost } of entries) {
    if (cost !== undefined && !attributes.includes(cost)) attributes.push(cost)
  }
  if (typeof actual !== 'object' || actual === null) {
    const [only = CALL_COST, ...others] = attributes
    requireUnits('actual', actual)
    if (others.length === 0) return new Map([[only, actual]])
    throw invalid(`found a number; accepted: one for each of ${attributes.join(', ')}`)
  }
  const accepted = [...attributes, CALL_COST]
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

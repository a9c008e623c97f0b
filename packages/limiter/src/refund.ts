/** What a refund returns and what a reset forgets. */
import {
  type Call,
  type CompiledLimit,
  type CompiledRule,
  type CounterKey,
  callerOf,
  counterKey,
  type Plan,
  readReceipt,
  SluiceError,
  show,
  type Snapshot,
  type Taken,
} from '@sluice/core'
import type { Give } from './store.js'

export interface ResetOptions {
  /** Only this rule; the only way to reset a counter that everybody shares (`by: []`). */
  readonly rule?: string | undefined
}

/**
 * Receipts refunded here are remembered, so that one is not paid out twice; the oldest are
 * forgotten.
 */
const REFUNDS_REMEMBERED = 10_000

export class PaidReceipts {
  readonly #paid = new Map<string, boolean[]>()

  /** Which entries of a receipt were given back here; to be filled in by whoever pays. */
  of(receipt: string, entries: number): boolean[] {
    const known = this.#paid.get(receipt)
    if (known !== undefined) return known
    const paid = Array.from({ length: entries }, () => false)
    this.#paid.set(receipt, paid)
    const [oldest] = this.#paid.keys()
    if (this.#paid.size > REFUNDS_REMEMBERED && oldest !== undefined) this.#paid.delete(oldest)
    return paid
  }
}

/** The cost of a call, into the present window of every limit it meets. */
export function givesOfCall(plan: Plan): readonly Give[] {
  return plan.groups.flat().map(({ key, limit, amount }) => ({ key, limit, amount }))
}

/**
 * What a receipt took, entry by entry, computed with the limits in force. What no rule counts any
 * more needs nothing.
 */
export function givesOfReceipt(snapshot: Snapshot, receipt: string): readonly (Give | undefined)[] {
  return readReceipt(receipt, snapshot.secret).map((taken) => {
    const found = findLimit(snapshot, taken)
    const { key, amount, at } = taken
    return found && { key, limit: found.limit, amount, at }
  })
}

const IDS_SHOWN = 5

/** The keys of every counter that a caller has, whatever paths they are for. */
export function keysOfCaller(
  snapshot: Snapshot,
  call: Call,
  options: ResetOptions,
): readonly CounterKey[] {
  if (options.rule !== undefined && snapshot.rules.every(({ id }) => id !== options.rule)) {
    const ids = snapshot.rules.slice(0, IDS_SHOWN).map(({ id }) => id)
    throw new SluiceError(
      'RULE_UNKNOWN',
      `rule: found "${show(options.rule)}"; accepted: the id of a rule in force, such as ${ids.join(', ')}`,
    )
  }
  return snapshot.rules.flatMap((rule) => {
    const named = options.rule === rule.id
    if (options.rule === undefined ? rule.by.length === 0 : !named) return []
    const caller = callerOf(snapshot, rule, call)
    if (caller === undefined) return []
    const seeds = new Map(allLimits(rule).map((limit) => [`${limit.hi}.${limit.lo}`, limit]))
    return [...seeds.values()].map((seed) => counterKey(caller, seed))
  })
}

/**
 * The limit of that name, of the tier it was taken from if that still is; else the one that holds
 * most, because a smaller one could not tell what is used.
 */
function findLimit(snapshot: Snapshot, taken: Taken): CompiledLimit | undefined {
  const rule = snapshot.rules.find(({ id }) => id === taken.rule)
  if (rule === undefined) return undefined
  const limits = taken.candidate ? candidateLimits(rule) : limitsInForce(rule)
  const sameness = ({ limit }: CompiledLimit) =>
    Number(limit.windowMs === taken.windowMs) * 2 +
    Number(limit.max === taken.max && limit.capacity === taken.capacity)
  return limits
    .filter(({ limit }) => limit.name === taken.limitName)
    .toSorted((a, b) => sameness(b) - sameness(a) || b.limit.capacity - a.limit.capacity)[0]
}

function limitsInForce(rule: CompiledRule): readonly CompiledLimit[] {
  const tiers = [...(rule.tiers?.limits.values() ?? [])]
  const overrides = [...(rule.overrides?.values() ?? [])].flat().map(({ limits }) => limits)
  return [rule.limits, ...tiers, ...overrides].flat()
}

function candidateLimits(rule: CompiledRule): readonly CompiledLimit[] {
  const { candidate } = rule
  if (candidate === undefined) return []
  return [candidate.limits, ...(candidate.tiers?.limits.values() ?? [])].flat()
}

function allLimits(rule: CompiledRule): readonly CompiledLimit[] {
  return [...limitsInForce(rule), ...candidateLimits(rule)]
}

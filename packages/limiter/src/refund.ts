/** What a refund returns, and what a reset or an override forgets. */
import {
  type Call,
  type ChangedCaller,
  type CompiledLimit,
  type CompiledRule,
  type Coordination,
  type CounterKey,
  callerOf,
  callerOfKey,
  counterKey,
  type Hash64,
  limitSeed,
  overrideLimitsOf,
  type Plan,
  readReceipt,
  SluiceError,
  show,
  type Snapshot,
  type ReceiptEntry,
} from '@sluice/core'
import type { RemoteDecider } from './remote-decider.js'
import { mayHaveRun } from './deferred-charges.js'
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

/** Units to be returned, and how nodes share the counter they are of. */
export interface Refund extends Give {
  readonly coordination: Coordination
}

export class RefundedReceipts {
  readonly #refunded = new Map<string, boolean[]>()

  /** Which entries of a receipt were given back here; to be filled in by whoever pays. */
  entriesOf(receipt: string, entries: number): boolean[] {
    const known = this.#refunded.get(receipt)
    if (known !== undefined) return known
    const refunded = Array.from({ length: entries }, () => false)
    this.#refunded.set(receipt, refunded)
    const [oldest] = this.#refunded.keys()
    if (this.#refunded.size > REFUNDS_REMEMBERED && oldest !== undefined)
      this.#refunded.delete(oldest)
    return refunded
  }
}

/** Gives back every entry that was not before; only what was not given back can be tried again. */
export async function refundEntries(
  gives: readonly (Refund | undefined)[],
  refunded: boolean[],
  give: (refund: Refund) => Promise<void>,
): Promise<void> {
  const refunds = gives.map(async (refund, entry) => {
    if (refund === undefined || refunded[entry] === true) return
    refunded[entry] = true
    try {
      await give(refund)
    } catch (error) {
      // Of some nobody knows.
      if (!mayHaveRun(error)) refunded[entry] = false
      throw error
    }
  })
  await Promise.all(refunds)
}

/** The cost of a call, into the present window of every limit it meets. */
export function givesOfCall(plan: Plan): readonly Refund[] {
  return plan.groups.flat().map(({ key, limit, amount, compiled }) => ({
    key,
    limit,
    amount,
    coordination: compiled.coordination,
  }))
}

/**
 * What a receipt took, entry by entry, computed with the limits in force. What no rule counts any
 * more needs nothing.
 */
export function givesOfReceipt(
  snapshot: Snapshot,
  receipt: string,
): readonly (Refund | undefined)[] {
  return readReceipt(receipt, snapshot.secret).map((taken) => {
    const found = findLimit(snapshot, taken)
    const { key, amount, at } = taken
    return found && { key, limit: found.limit, amount, at, coordination: found.coordination }
  })
}

const IDS_SHOWN = 5

/** The keys of every counter that a caller has, whatever paths they are for. */
export function keysOfCaller(
  snapshot: Snapshot,
  call: Call,
  options: ResetOptions,
): readonly CounterKey[] {
  if (options.rule !== undefined && !snapshot.byId.has(options.rule)) {
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
    return caller === undefined ? [] : countersOf(snapshot, rule, caller)
  })
}

/** For more callers than this it is cheaper to forget all refusals than to look for theirs. */
const CALLERS_FORGOTTEN_MAX = 100

/** A caller that was just given more must not be refused for what it had. */
export function forgetRefusals(
  decider: RemoteDecider,
  snapshot: Snapshot,
  callers: readonly ChangedCaller[],
): void {
  // Nobody knows which callers of a network were refused.
  const hasNetwork = callers.some(({ isNetwork }) => isNetwork)
  if (hasNetwork || callers.length > CALLERS_FORGOTTEN_MAX) return decider.onRulesChanged()
  for (const { rule, caller } of callers) {
    for (const key of countersOf(snapshot, rule, caller)) decider.invalidate(key)
  }
}

/** Every counter that a rule may have for a caller, whatever its tier. */
function countersOf(snapshot: Snapshot, rule: CompiledRule, caller: Hash64): readonly CounterKey[] {
  const limits = [...limitsInForce(snapshot, rule, caller), ...candidateLimits(rule)]
  const seeds = new Map(limits.map((limit) => [`${limit.hi}.${limit.lo}`, limit]))
  return [...seeds.values()].map((seed) => counterKey(caller, seed))
}

/**
 * The limit of that name, of the tier it was taken from if that still is; else the one that holds
 * most, because a smaller one could not tell what is used.
 */
function findLimit(snapshot: Snapshot, taken: ReceiptEntry): CompiledLimit | undefined {
  const rule = snapshot.byId.get(taken.rule)
  if (rule === undefined) return undefined
  const limits = taken.candidate
    ? candidateLimits(rule)
    : limitsInForce(snapshot, rule, callerOfTaken(snapshot, rule, taken))
  const sameness = ({ limit }: CompiledLimit) =>
    Number(limit.windowMs === taken.windowMs) * 2 +
    Number(limit.max === taken.max && limit.capacity === taken.capacity)
  return limits
    .filter(({ limit }) => limit.name === taken.limitName)
    .toSorted((a, b) => sameness(b) - sameness(a) || b.limit.capacity - a.limit.capacity)[0]
}

/** The limits that calls of a caller may meet: its own, and those of the rule and its tiers. */
function limitsInForce(
  snapshot: Snapshot,
  rule: CompiledRule,
  caller: Hash64,
): readonly CompiledLimit[] {
  const tiers = [...(rule.tiers?.limits.values() ?? [])]
  return [rule.limits, ...tiers, overrideLimitsOf(snapshot, rule, caller)].flat()
}

/** A receipt does not name its caller, but the key of a counter gives it away. */
function callerOfTaken(
  { limitKey }: Snapshot,
  { id, by }: CompiledRule,
  taken: ReceiptEntry,
): Hash64 {
  const name = taken.limitName
  return callerOfKey(taken.key, limitSeed(limitKey, { rule: id, name, candidate: false, by }))
}

function candidateLimits(rule: CompiledRule): readonly CompiledLimit[] {
  const { candidate } = rule
  if (candidate === undefined) return []
  return [candidate.limits, ...(candidate.tiers?.limits.values() ?? [])].flat()
}

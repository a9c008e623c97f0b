/** Computes what a refund returns, and what a reset or an override change invalidates. */
import {
  type Call,
  type ChangedCaller,
  type ChargedEntry,
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
  isBlock,
  isConcurrency,
} from '@sluice/core'
import type { RemoteDecider } from './remote-decider.js'
import { mayHaveRun } from './deferred-charges.js'
import { RegionResetError } from './regions/region-reset-error.js'
import type { Give, Store } from './store.js'

export interface ResetOptions {
  /** Only this rule. Required for a counter that all callers share (`by: []`). */
  readonly rule?: string | undefined
}

/** The most refunded receipts remembered by this node, so that none is paid out twice. */
const REFUNDS_REMEMBERED = 10_000

/** Units to return, and how nodes share their counter. */
export interface Refund extends Give {
  readonly coordination: Coordination
}

export class RefundedReceipts {
  readonly #refunded = new Map<string, boolean[]>()

  /** Which entries of a receipt this node has returned; `refundEntries` fills it in. */
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

/** Returns every entry that was not returned before; entries that failed can be tried again. */
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
      // An entry with an unknown fate is not tried again.
      if (!mayHaveRun(error)) refunded[entry] = false
      throw error
    }
  })
  await Promise.all(refunds)
}

/** The cost of a call, returned to the present window of every limit it meets. */
export function givesOfCall(plan: Plan): readonly Refund[] {
  const takes = plan.groups.flat().filter(({ limit }) => !isBlock(limit) && !isConcurrency(limit))
  return takes.map(({ key, limit, amount, compiled }) => ({
    key,
    limit,
    amount,
    coordination: compiled.coordination,
  }))
}

/**
 * The units of a receipt, entry by entry, by the active limits. Undefined for an entry that no rule
 * counts any more.
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

/** The keys of every counter of a caller, for any path. */
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

/** For more callers than this it is cheaper to drop all refusals than to find theirs. */
const CALLERS_FORGOTTEN_MAX = 100

/** Drops remembered refusals of callers whose limits were just changed. */
export function forgetRefusals(
  decider: RemoteDecider,
  snapshot: Snapshot,
  callers: readonly ChangedCaller[],
): void {
  // Callers of a network cannot be enumerated.
  const hasNetwork = callers.some(({ isNetwork }) => isNetwork)
  if (hasNetwork || callers.length > CALLERS_FORGOTTEN_MAX) return decider.onRulesChanged()
  for (const { rule, caller } of callers) {
    for (const key of countersOf(snapshot, rule, caller)) decider.invalidate(key)
  }
}

/** Every counter that a rule may have for a caller, in any tier. */
function countersOf(snapshot: Snapshot, rule: CompiledRule, caller: Hash64): readonly CounterKey[] {
  const limits = [...limitsInForce(snapshot, rule, caller), ...candidateLimits(rule)]
  const counted = limits.flatMap((limit): readonly Hash64[] =>
    limit.block === undefined ? [limit] : [limit, limit.block],
  )
  const seeds = new Map(counted.map((seed) => [`${seed.hi}.${seed.lo}`, seed]))
  return [...seeds.values()].map((seed) => counterKey(caller, seed))
}

/**
 * The limit of that name: the one it was taken from if that still exists, else the largest, because
 * a smaller one could not represent what is used. Units are no places: a limit that became one of
 * concurrency, or was one, is another.
 */
export function findLimit(snapshot: Snapshot, taken: ChargedEntry): CompiledLimit | undefined {
  const rule = snapshot.byId.get(taken.rule)
  if (rule === undefined) return undefined
  const limits = taken.candidate
    ? candidateLimits(rule)
    : limitsInForce(snapshot, rule, callerOfTaken(snapshot, rule, taken))
  const sameness = (compiled: CompiledLimit) =>
    Number(compiled.limit.windowMs === taken.windowMs) * 2 +
    Number([compiled, ...(compiled.ceilings ?? [])].some((each) => isSameSize(each, taken)))
  return limits
    .filter(({ limit }) => limit.name === taken.limitName && isPlaces(limit) === isPlaces(taken))
    .toSorted((a, b) => sameness(b) - sameness(a) || b.limit.capacity - a.limit.capacity)[0]
}

/** Limits of concurrency have no window. */
function isPlaces({ windowMs }: Pick<ChargedEntry, 'windowMs'>): boolean {
  return windowMs === 0
}

/** The limit under the ceiling that it was taken under; the whole one if there is none such. */
export function underSameCeiling(whole: CompiledLimit, taken: ChargedEntry): CompiledLimit {
  return whole.ceilings?.find((ceiling) => isSameSize(ceiling, taken)) ?? whole
}

function isSameSize({ limit }: CompiledLimit, { max, capacity }: ChargedEntry): boolean {
  return limit.max === max && limit.capacity === capacity
}

/** The limits that calls of a caller may meet: overrides, and those of the rule and its tiers. */
function limitsInForce(
  snapshot: Snapshot,
  rule: CompiledRule,
  caller: Hash64,
): readonly CompiledLimit[] {
  const tiers = [...(rule.tiers?.limits.values() ?? [])]
  return [rule.limits, ...tiers, overrideLimitsOf(snapshot, rule, caller)].flat()
}

/** The caller hash of a receipt entry, recovered from the counter key. */
function callerOfTaken(
  { limitKey }: Snapshot,
  { id, by }: CompiledRule,
  taken: ChargedEntry,
): Hash64 {
  const name = taken.limitName
  return callerOfKey(taken.key, limitSeed(limitKey, { rule: id, name, candidate: false, by }))
}

function candidateLimits(rule: CompiledRule): readonly CompiledLimit[] {
  const { candidate } = rule
  if (candidate === undefined) return []
  return [candidate.limits, ...(candidate.tiers?.limits.values() ?? [])].flat()
}

/** Resets a counter in the store, and drops what this node holds of it. */
export async function resetCounter(
  store: Pick<Store, 'reset'>,
  decider: RemoteDecider | undefined,
  key: CounterKey,
): Promise<void> {
  try {
    await store.reset(key)
  } catch (error) {
    // The store may have run the reset although it did not answer.
    if (error instanceof RegionResetError) decider?.onReset(key)
    else decider?.invalidateEverywhere(key)
    throw error
  }
  decider?.onReset(key)
}

/**
 * Ceilings of priorities: how much of a limit each may use. All priorities count in one counter; a
 * call is decided by a smaller limit the less important it is, so what is reserved for the more
 * important ones stays free for them.
 *
 * ceiling(p) = capacity - the sum over all q above p of ceil(reserve(q) * capacity)
 */
import { algorithmOf } from '../algorithms/index.js'
import { type Limit, withoutWaiting } from '../limit.js'
import { ceilDiv, floorDiv } from '../numbers.js'
import { policyField } from '../policy-field.js'
import type { Headroom } from '../rules/rule.js'
import type { CompiledLimit } from './compiled.js'

/** Reserves are whole ten-thousandths, so that no share of a limit is rounded twice. */
export const SHARE_WHOLE = 10_000

/** Returns the units that are left once each of these reserves is kept free. */
export function ceilingUnits(capacity: number, reserves: readonly number[]): number {
  let left = capacity
  const whole = floorDiv(capacity, SHARE_WHOLE)
  // In two steps, because reserve * capacity may exceed 2^53.
  const rest = capacity - whole * SHARE_WHOLE
  for (const reserve of reserves) left -= whole * reserve + ceilDiv(rest * reserve, SHARE_WHOLE)
  return left
}

/**
 * Returns the smallest ceiling of a limit: one unit. A leaky bucket takes a queue of more than
 * twice its places for one of another clock, so its ceilings are at least half of them.
 */
export function leastCeiling(limit: Limit): number {
  const isQueue = algorithmOf(limit).family === 'queue'
  return isQueue ? Math.max(1, ceilDiv(limit.capacity - 1, 2)) : 1
}

/**
 * Returns the limit of a priority above which these reserves are kept free. A bucket may owe what
 * it cannot hold any more: otherwise each call under a ceiling would hand back what more important
 * ones have used. A window says by as much how far charges may fill the whole limit.
 */
export function ceilingLimit(limit: Limit, reserves: readonly number[]): Limit {
  const { capacity, borrowable } = limit
  if (reserves.length === 0 || capacity === 0) return limit
  const ceiling = Math.max(leastCeiling(limit), ceilingUnits(capacity, reserves))
  const { family } = algorithmOf(limit)
  const reserved = capacity - ceiling
  if (family === 'bucket') return { ...limit, capacity: ceiling, borrowable: borrowable + reserved }
  if (family === 'queue') return { ...limit, capacity: ceiling }
  const under = { ...limit, max: ceiling, capacity: ceiling }
  return family === 'window' ? { ...under, borrowable: reserved } : under
}

/** Of a limit under a ceiling: the whole limit, and what is reserved above. */
export interface Ceiling {
  readonly whole: CompiledLimit
  readonly reserves: readonly number[]
}

/**
 * Returns the limit with one for each priority. With `coordination: leased` a priority that has a
 * reserve is decided by the store: its reserve is in no lease. Priorities with equal ceilings share
 * one limit, and with it the leases.
 */
export function withCeilings(
  compiled: CompiledLimit,
  headroom: Headroom,
  priorities: readonly string[],
  intern: (limit: Limit) => Limit,
): CompiledLimit {
  const ceilings: CompiledLimit[] = []
  const whole: CompiledLimit = { ...compiled, ceilings }
  const shared = new Map<string, CompiledLimit>()
  const reserves: number[] = []
  for (const priority of priorities) {
    const reserve = headroom.get(priority)
    const isExact = reserve !== undefined && compiled.coordination === 'leased'
    const coordination = isExact ? 'exact' : compiled.coordination
    const name = `${coordination} ${reserves.length}`
    const under = shared.get(name) ?? underCeiling(whole, [...reserves], coordination, intern)
    shared.set(name, under)
    ceilings.push(under)
    if (reserve !== undefined) reserves.push(reserve)
  }
  return whole
}

function underCeiling(
  whole: CompiledLimit,
  reserves: readonly number[],
  coordination: CompiledLimit['coordination'],
  intern: (limit: Limit) => Limit,
): CompiledLimit {
  if (reserves.length === 0 && coordination === whole.coordination) return whole
  const limit = intern(ceilingLimit(whole.limit, reserves))
  return {
    ...whole,
    limit,
    immediate: intern(withoutWaiting(limit)),
    field: whole.sheds ? '' : policyField(whole.policy, limit),
    coordination,
    ceilings: undefined,
    ceiling: { whole, reserves },
  }
}

/** Returns the limit itself for one that is under no ceiling. */
export function wholeLimit(compiled: CompiledLimit): CompiledLimit {
  return compiled.ceiling === undefined ? compiled : compiled.ceiling.whole
}

/** Returns a part of the whole limit, as one node has it, under the ceiling of `compiled`. */
export function partUnderCeiling(part: Limit, { ceiling }: CompiledLimit): Limit {
  return ceiling === undefined ? part : ceilingLimit(part, ceiling.reserves)
}

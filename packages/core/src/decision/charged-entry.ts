/**
 * One counter that a decision charged, as receipts and reservations write it down.
 *
 * It names rule and limit, not their numbers: what is given back later uses the active limit,
 * because a counter continues when its limit changes.
 */
import type { Outcome } from '../algorithms/algorithm.js'
import type { CounterKey } from '../key.js'
import { isCount } from '../numbers.js'
import { candidateId, type Plan, type PlannedTake } from './plan.js'

export interface ChargedEntry {
  readonly rule: string
  readonly limitName: string
  readonly candidate: boolean
  /** The limit's size and window when it was taken, to find the same tier again. */
  readonly max: number
  readonly windowMs: number
  readonly capacity: number
  readonly key: CounterKey
  readonly amount: number
  readonly at: number
}

/** A take that was granted units, and its place in the plan. */
export interface GrantedTake {
  readonly take: PlannedTake
  readonly group: number
  readonly entry: ChargedEntry
}

/** The texts of an entry, joined by dots. */
export const ENTRY_FIELDS = 11

/** Lists what a decision charged, shadow groups included. */
export function grantedTakes(
  plan: Plan,
  outcomes: readonly (readonly Outcome[])[],
): readonly GrantedTake[] {
  const granted: GrantedTake[] = []
  for (let group = 0; group < plan.groups.length; group++) {
    const takes = plan.groups[group] ?? []
    for (let i = 0; i < takes.length; i++) {
      const take = takes[i]
      const outcome = outcomes[group]?.[i]
      if (take === undefined || outcome === undefined || outcome.granted <= 0) continue
      granted.push({ take, group, entry: chargedEntry(plan, group, take, outcome) })
    }
  }
  return granted
}

/** The entry of a take of this group, with what it was granted. */
export function chargedEntry(
  plan: Plan,
  group: number,
  { key, limit, compiled }: PlannedTake,
  { granted, at }: Pick<Outcome, 'granted' | 'at'>,
): ChargedEntry {
  const { rule } = compiled
  const { max, windowMs, capacity, name } = limit
  return {
    rule,
    limitName: name,
    candidate: group > 0 && plan.shadows[group - 1] === candidateId(rule),
    max,
    windowMs,
    capacity,
    key,
    amount: granted,
    at,
  }
}

export function formatEntry(entry: ChargedEntry): string {
  const { rule, limitName, candidate, key, amount, at, max, windowMs, capacity } = entry
  const numbers = [
    candidate ? 1 : 0,
    key.hi >>> 0,
    key.lo >>> 0,
    key.partition,
    amount,
    at,
    max,
    windowMs,
    capacity,
  ]
  return [rule, limitName, ...numbers.map((number) => number.toString(36))].join('.')
}

/** Reads the texts of `formatEntry`; undefined if they are damaged. */
export function parseEntry(fields: readonly string[]): ChargedEntry | undefined {
  const [rule = '', limitName = '', ...texts] = fields
  const numbers = texts.map((text) => Number.parseInt(text, 36))
  const [candidate, hi = 0, lo = 0, partition = 0, amount = 0, at = 0, ...size] = numbers
  const [max = 0, windowMs = 0, capacity = 0] = size
  if (fields.length !== ENTRY_FIELDS || !numbers.every(isCount)) return undefined
  const key = { hi: hi | 0, lo: lo | 0, partition }
  const isCandidate = candidate === 1
  return { rule, limitName, candidate: isCandidate, max, windowMs, capacity, key, amount, at }
}

/** Selects and formats the tracked callers for the node snapshot and for alerts. */
import { formatHash, type Hash64 } from '@sluice/core'
import type { CallerSnapshot, ShadowCallerSnapshot } from '../node-snapshot.js'
import type { CallerTable } from './caller-table.js'
import { countHours, type HoursAtLimit } from './hours-at-limit.js'
import { type ParsedLabel, parseLabel } from './caller-label.js'
import type { TrackedRule } from './rule-callers.js'
import type { ExhaustedCallers } from './exhausted-callers.js'

export interface ExhaustedCallerView extends ParsedLabel {
  readonly rule: string
  readonly hash: string
  /** Whether the rule has one counter for all of its calls. */
  readonly isEverybody: boolean
  readonly sinceMs: number
  readonly lastSeenMs: number
  readonly lastRefusedCall: string | null
}

/** Beyond this many callers whole rules are left out, to bound the work of nodes. */
export const VIEW_MAX = 4000

/** Rules with most refusals come first, then those with most decisions. */
export function viewCallers(
  rules: readonly TrackedRule[],
  exhausted: ExhaustedCallers,
  hours: HoursAtLimit,
  limit: number,
  nowMs: number,
): readonly CallerSnapshot[] {
  const exhaustedByRule = firstByRule(
    exhausted.table,
    limit,
    (a, b) => exhausted.sinceMsAt(a) - exhausted.sinceMsAt(b),
    (slot) => !exhausted.isRefilledAt(slot, nowMs),
  )
  const byHours = firstByRule(hours.table, limit, (a, b) => {
    const difference = countHours(hours.hoursAt(b)) - countHours(hours.hoursAt(a))
    return difference === 0 ? hours.table.lastMsAt(b) - hours.table.lastMsAt(a) : difference
  })
  const views: CallerSnapshot[] = []
  for (const rule of rules.filter(hasCallers).toSorted(compareRules)) {
    const first = new Map<string, Hash64>()
    const lists = [
      rule.refusals.highest(limit),
      rule.use.highest(limit),
      exhaustedByRule.get(rule.number) ?? [],
      byHours.get(rule.number) ?? [],
    ]
    for (const list of lists) for (const caller of list) first.set(formatHash(caller), caller)
    if (views.length + first.size > VIEW_MAX) break
    for (const [hash, caller] of first)
      views.push(viewCaller(rule, hash, caller, { exhausted, hours, nowMs }))
  }
  return views

  function hasCallers({ refusals, use, number }: TrackedRule): boolean {
    return refusals.hasSketch || use.hasSketch || exhaustedByRule.has(number) || byHours.has(number)
  }
}

function compareRules(a: TrackedRule, b: TrackedRule): number {
  return (
    b.refusals.recentActivity - a.refusals.recentActivity ||
    b.use.recentActivity - a.use.recentActivity
  )
}

/** Callers that were exhausted and refused for longer than `olderThanMs`, the longest first. */
export function viewExhausted(
  rules: readonly TrackedRule[],
  exhausted: ExhaustedCallers,
  olderThanMs: number,
  limit: number,
): readonly ExhaustedCallerView[] {
  const { table } = exhausted
  const slots: number[] = []
  table.each((slot) => {
    // Up to its last call only: a caller refused once that stayed away was not exhausted since.
    const lastedMs = table.lastMsAt(slot) - exhausted.sinceMsAt(slot)
    if (lastedMs > olderThanMs && exhausted.isRefusedAt(slot)) slots.push(slot)
  })
  const first = slots
    .toSorted((a, b) => exhausted.sinceMsAt(a) - exhausted.sinceMsAt(b))
    .slice(0, limit)
  return first.flatMap((slot) => {
    const rule = rules[table.ruleAt(slot)]
    if (rule === undefined) return []
    return {
      rule: rule.rule,
      hash: formatHash({ hi: table.hiAt(slot), lo: table.loAt(slot) }),
      ...parseLabel(rule.by, table.labelAt(slot)),
      isEverybody: rule.isEverybody,
      sinceMs: exhausted.sinceMsAt(slot),
      lastSeenMs: table.lastMsAt(slot),
      lastRefusedCall: exhausted.callAt(slot) ?? null,
    }
  })
}

interface ViewContext {
  readonly exhausted: ExhaustedCallers
  readonly hours: HoursAtLimit
  readonly nowMs: number
}

function viewCaller(
  rule: TrackedRule,
  hash: string,
  { hi, lo }: Hash64,
  { exhausted, hours, nowMs }: ViewContext,
): CallerSnapshot {
  const refusals = rule.refusals.estimate(hi, lo)
  const use = rule.use.estimate(hi, lo)
  const exhaustedSlot = exhausted.table.find(rule.number, hi, lo)
  const hoursSlot = hours.table.find(rule.number, hi, lo)
  return {
    rule: rule.rule,
    hash,
    ...parseLabel(rule.by, rule.knownLabelOf({ hi, lo })),
    ...(rule.isEverybody && { isEverybody: true }),
    refusals: refusals.count,
    refusalsError: refusals.error,
    use: use.count,
    useError: use.error,
    lastRefusedCall: rule.refusals.callOf(hi, lo) ?? callIn(exhausted, exhaustedSlot) ?? null,
    zeroSinceMs: exhaustedSlot === -1 ? null : exhausted.sinceMsAt(exhaustedSlot),
    ...(exhaustedSlot !== -1 &&
      exhausted.isRefilledAt(exhaustedSlot, nowMs) && { isRefilled: true }),
    lastSeenMs: Math.max(
      rule.refusals.lastMsOf(hi, lo),
      rule.use.lastMsOf(hi, lo),
      lastMsIn(exhausted.table, exhaustedSlot),
      lastMsIn(hours.table, hoursSlot),
    ),
    hours: hoursSlot === -1 ? 0 : hours.hoursAt(hoursSlot),
  }
}

function callIn(exhausted: ExhaustedCallers, slot: number): string | undefined {
  return slot === -1 ? undefined : exhausted.callAt(slot)
}

function lastMsIn(table: CallerTable, slot: number): number {
  return slot === -1 ? 0 : table.lastMsAt(slot)
}

/** The first callers of each rule in the given order. */
function firstByRule(
  table: CallerTable,
  limit: number,
  order: (a: number, b: number) => number,
  isWanted: (slot: number) => boolean = () => true,
): ReadonlyMap<number, readonly Hash64[]> {
  const slots = new Map<number, number[]>()
  table.each((slot) => {
    if (!isWanted(slot)) return
    const rule = table.ruleAt(slot)
    const known = slots.get(rule)
    if (known === undefined) slots.set(rule, [slot])
    else known.push(slot)
  })
  const first = new Map<number, readonly Hash64[]>()
  for (const [rule, ofRule] of slots) {
    const kept = ofRule.toSorted(order).slice(0, limit)
    first.set(
      rule,
      kept.map((slot) => ({ hi: table.hiAt(slot), lo: table.loAt(slot) })),
    )
  }
  return first
}

/** Beyond this many callers the rules with fewest would-be refusals are left out. */
export const SHADOW_VIEW_MAX = 1000

export function viewShadowCallers(
  rules: readonly TrackedRule[],
  limit: number,
): readonly ShadowCallerSnapshot[] {
  const callers: ShadowCallerSnapshot[] = []
  const known = rules.filter(
    (rule) => rule.shadowRefusals.hasSketch || rule.candidateRefusals.hasSketch,
  )
  for (const rule of known.toSorted((a, b) => activityOf(b) - activityOf(a))) {
    const first = new Map<string, Hash64>()
    for (const top of [rule.shadowRefusals, rule.candidateRefusals]) {
      for (const caller of top.highest(limit)) first.set(formatHash(caller), caller)
    }
    if (callers.length + first.size > SHADOW_VIEW_MAX) break
    for (const [hash, caller] of first) callers.push(viewShadowCaller(rule, hash, caller))
  }
  return callers
}

function activityOf({ shadowRefusals, candidateRefusals }: TrackedRule): number {
  return shadowRefusals.recentActivity + candidateRefusals.recentActivity
}

function viewShadowCaller(
  rule: TrackedRule,
  hash: string,
  { hi, lo }: Hash64,
): ShadowCallerSnapshot {
  const { shadowRefusals, candidateRefusals } = rule
  const shadow = shadowRefusals.estimate(hi, lo)
  const candidate = candidateRefusals.estimate(hi, lo)
  return {
    rule: rule.rule,
    hash,
    ...parseLabel(rule.by, rule.knownLabelOf({ hi, lo })),
    ...(rule.isEverybody && { isEverybody: true }),
    shadowRefusals: shadow.count,
    shadowRefusalsError: shadow.error,
    candidateRefusals: candidate.count,
    candidateRefusalsError: candidate.error,
    lastRefusedCall: shadowRefusals.callOf(hi, lo) ?? candidateRefusals.callOf(hi, lo) ?? null,
    lastSeenMs: Math.max(shadowRefusals.lastMsOf(hi, lo), candidateRefusals.lastMsOf(hi, lo)),
  }
}

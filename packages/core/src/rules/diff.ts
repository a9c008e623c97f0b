/** Compares two rule sets: which rules change, and what happens to their counters. */
import {
  type CounterFate,
  counterFates,
  isSameOverride,
  overridesByCaller,
} from './diff-counters.js'
import { type FieldChange, ruleFields, setFields } from './diff-fields.js'
import { changedRange } from './list-diff.js'
import type { Rule, RuleSet } from './rule.js'

export type { CounterFate } from './diff-counters.js'

export interface RuleChange {
  readonly id: string
  /** A rule that is changed and moved is `changed`, with its `position` among the fields. */
  readonly change: 'added' | 'removed' | 'changed' | 'moved'
  /** The fields that differ, as readable text: `mode`, `enforce`, `shadow`. Empty if absent. */
  readonly fields: readonly FieldChange[]
  /** Every counter of the rule, including unchanged ones. */
  readonly counters: readonly CounterFate[]
  /** The number of overrides added, changed and removed. */
  readonly overrides: { readonly added: number; readonly changed: number; readonly removed: number }
}

export interface RuleDiff {
  /** Changes of routes, strictPaths, priorities, classify and shed. */
  readonly set: RuleChange['fields']
  /** Only rules that differ, in the order of the new set; removed ones last. */
  readonly rules: readonly RuleChange[]
}

export function diffRules(before: RuleSet, after: RuleSet): RuleDiff {
  const middle = changedRange(before.rules, after.rules)
  const was = positionsById(middle.before, middle.start)
  const is = positionsById(middle.after, middle.start)
  const moved = movedIds(middle.before, is)
  const present = middle.after.flatMap((rule) => {
    const old = was.get(rule.id)
    if (old === undefined) return [describe('added', undefined, rule)]
    return changeOf(old.rule, rule, {
      field: 'position',
      before: moved.has(rule.id) ? String(old.position) : '',
      after: moved.has(rule.id) ? String(is.get(rule.id)?.position) : '',
    })
  })
  const removed = middle.before
    .filter(({ id }) => !is.has(id))
    .map((rule) => describe('removed', rule, undefined))
  return { set: setFields(before, after), rules: [...present, ...removed] }
}

function changeOf(before: Rule, after: Rule, position: FieldChange): readonly RuleChange[] {
  const isMoved = position.before !== ''
  const moved: RuleChange = {
    id: after.id,
    change: 'moved',
    fields: [position],
    counters: [],
    overrides: NO_OVERRIDES,
  }
  // Sets share the objects of unchanged rules.
  if (before === after) return isMoved ? [moved] : []
  const changed = describe('changed', before, after)
  const { added, changed: other, removed } = changed.overrides
  if (changed.fields.length === 0 && added + other + removed === 0) return isMoved ? [moved] : []
  return [isMoved ? { ...changed, fields: [position, ...changed.fields] } : changed]
}

function describe(
  change: RuleChange['change'],
  before: Rule | undefined,
  after: Rule | undefined,
): RuleChange {
  return {
    id: (after ?? before)?.id ?? '',
    change,
    fields: ruleFields(before, after),
    counters: counterFates(before, after),
    overrides: countOverrides(before, after),
  }
}

const NO_OVERRIDES: RuleChange['overrides'] = { added: 0, changed: 0, removed: 0 }

function countOverrides(
  before: Rule | undefined,
  after: Rule | undefined,
): RuleChange['overrides'] {
  const was = before === undefined ? NO_CALLERS : overridesByCaller(before)
  const is = after === undefined ? NO_CALLERS : overridesByCaller(after)
  // If a rule counts by other attributes, every caller is a different one.
  if (before !== undefined && after !== undefined && before.by.join() !== after.by.join()) {
    return { added: is.size, changed: 0, removed: was.size }
  }
  let added = 0
  let changed = 0
  for (const [caller, override] of is) {
    const old = was.get(caller)
    if (old === undefined) added += 1
    else if (!isSameOverride(old, override)) changed += 1
  }
  return { added, changed, removed: was.size - (is.size - added) }
}

const NO_CALLERS: ReturnType<typeof overridesByCaller> = new Map()

interface PositionedRule {
  readonly rule: Rule
  /** The position in its set, from 1 on. */
  readonly position: number
}

/** `start` is the number of rules before these. */
function positionsById(rules: readonly Rule[], start: number): ReadonlyMap<string, PositionedRule> {
  return new Map(rules.map((rule, index) => [rule.id, { rule, position: start + index + 1 }]))
}

/**
 * Returns the fewest rules that have to move to bring the common rules into the new order: all but
 * a longest increasing subsequence.
 */
function movedIds(
  before: readonly Rule[],
  is: ReadonlyMap<string, PositionedRule>,
): ReadonlySet<string> {
  const common = before.filter(({ id }) => is.has(id))
  const positions = common.map(({ id }) => is.get(id)?.position ?? 0)
  const moved = new Set(common.map(({ id }) => id))
  for (const index of longestRise(positions)) moved.delete(common[index]?.id ?? '')
  return moved
}

/** Returns the indexes of a longest increasing subsequence. */
function longestRise(numbers: readonly number[]): readonly number[] {
  // For each length, the index of the smallest last number of a subsequence of that length.
  const ends: number[] = []
  const previous: number[] = []
  for (const [index, number] of numbers.entries()) {
    let low = 0
    let high = ends.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((numbers[ends[middle] ?? 0] ?? 0) < number) low = middle + 1
      else high = middle
    }
    previous.push(low === 0 ? -1 : (ends[low - 1] ?? -1))
    ends[low] = index
  }
  const run: number[] = []
  for (let at = ends.at(-1) ?? -1; at !== -1; at = previous[at] ?? -1) run.push(at)
  return run
}

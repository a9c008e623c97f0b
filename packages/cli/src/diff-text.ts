/** Formats the difference between two rule sets for a user who has to confirm it. */
import type { CounterFate, FieldChange, RuleChange, RuleDiff } from '@sluice/client'
import { show } from '@sluice/core'

const RULES_SHOWN_MAX = 200
const TEXT_LENGTH_MAX = 200

const SIGNS = { added: '+', removed: '-', changed: '~', moved: '>' } as const
const FATES = ['go on', 'start anew', 'end'] as const

export function isEmptyDiff({ set, rules }: RuleDiff): boolean {
  return set.length === 0 && rules.length === 0
}

/** Ends with a line break. Text of rules is escaped, because its author may not be its reader. */
export function diffText(diff: RuleDiff): string {
  if (isEmptyDiff(diff)) return 'Nothing changes.\n'
  const shown = diff.rules.slice(0, RULES_SHOWN_MAX)
  const rest = diff.rules.length - shown.length
  const lines = [
    ...diff.set.map((change) => `~ ${fieldText(change)}`),
    ...shown.flatMap(ruleLines),
    ...(rest > 0 ? [`  and ${rest} more rules; --json has all`] : []),
    summaryOf(diff),
  ]
  return `${lines.join('\n')}\n`
}

function ruleLines({ id, change, fields, counters, overrides }: RuleChange): readonly string[] {
  return [
    `${SIGNS[change]} ${cell(id)}  ${change}`,
    ...fields.map((field) => `    ${change === 'removed' ? goneText(field) : fieldText(field)}`),
    // A rule that is added or removed has no counters to continue, so there is nothing to say.
    ...(change === 'changed' ? FATES.flatMap((fate) => fateLines(fate, counters)) : []),
    ...overrideLines(overrides),
  ]
}

/** The limits of a removed rule, as an added rule is shown with its limits. */
function goneText({ field, before }: FieldChange): string {
  return `${cell(field)}: ${cell(before)}`
}

function fieldText({ field, before, after }: FieldChange): string {
  if (before === '') return `${cell(field)}: ${cell(after)}`
  if (after === '') return `${cell(field)}: ${cell(before)} -> none`
  return `${cell(field)}: ${cell(before)} -> ${cell(after)}`
}

/** One line for each limit whose counters have this fate. */
function fateLines(fate: CounterFate['counters'], all: readonly CounterFate[]): readonly string[] {
  return all
    .filter(({ counters }) => counters === fate)
    .map(({ where, limit, what }) => {
      const change = what === '' ? '' : ` (${cell(what)})`
      return `    counters ${fate}: ${cell(where)} ${cell(limit)}${change}`
    })
}

function overrideLines({ added, changed, removed }: RuleChange['overrides']): readonly string[] {
  const counts = [
    [added, 'added'],
    [changed, 'changed'],
    [removed, 'removed'],
  ] as const
  const words = counts.flatMap(([count, what]) => (count > 0 ? `${count} ${what}` : []))
  return words.length === 0 ? [] : [`    overrides: ${words.join(', ')}`]
}

function summaryOf({ set, rules }: RuleDiff): string {
  const kinds = ['added', 'changed', 'moved', 'removed'] as const
  const words = kinds.flatMap((kind) => {
    const count = rules.filter(({ change }) => change === kind).length
    return count === 0 ? [] : `${count} ${kind}`
  })
  const own = set.length === 0 ? [] : [`${set.length} of the set as a whole`]
  return `Rules: ${[...words, ...own].join(', ')}.`
}

function cell(text: string): string {
  return show(text, TEXT_LENGTH_MAX)
}

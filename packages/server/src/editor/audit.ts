/** The line of the log that every change leaves: who, why, what. Never a value, never a caller. */
import type { Log } from '../log/logger.js'
import { type Change, type RuleDocument, splitOverrideKey } from '../rule-store/records.js'
import type { RuleBook } from '../source/rule-book.js'

/** How much one line lists. */
const LISTED_MAX = 20

export interface Described {
  /** For people: `rule orders created`. */
  readonly what: readonly string[]
  /** What weakens protection, and is told louder. */
  readonly alarms: readonly { readonly rule: string; readonly message: string }[]
}

/** The book is as it was before the changes. */
export function describeChanges(book: RuleBook, changes: readonly Change[]): Described {
  const what: string[] = []
  const overrides = new Map<string, { set: number; removed: number }>()
  const alarms: { rule: string; message: string }[] = []
  for (const change of changes) {
    if (change.kind === 'override') {
      const { rule } = splitOverrideKey(change.id)
      const counts = overrides.get(rule) ?? { set: 0, removed: 0 }
      counts[change.body === null ? 'removed' : 'set']++
      overrides.set(rule, counts)
      continue
    }
    what.push(describe(book, change))
    if (change.kind === 'rule') {
      const before = book.rule(change.id)?.document
      for (const message of alarmsOf(before, change.body)) alarms.push({ rule: change.id, message })
    }
  }
  for (const [rule, { set, removed }] of overrides) {
    what.push(`rule ${rule}: ${set} overrides set, ${removed} removed`)
  }
  if (what.length <= LISTED_MAX) return { what, alarms }
  const rest = `and ${what.length - LISTED_MAX} more`
  return { what: [...what.slice(0, LISTED_MAX), rest], alarms }
}

function describe(book: RuleBook, { kind, id, body }: Change): string {
  if (kind === 'set') return 'set changed'
  if (kind === 'candidate') return `rule ${id}: candidate ${body === null ? 'removed' : 'set'}`
  if (kind !== 'rule') return `${kind} ${id} ${body === null ? 'removed' : 'set'}`
  if (body === null) return `rule ${id} removed`
  return `rule ${id} ${book.rule(id) === undefined ? 'created' : 'changed'}`
}

function alarmsOf(
  before: RuleDocument | undefined,
  after: RuleDocument | null | undefined,
): readonly string[] {
  const alarms: string[] = []
  const wasEnforced = before !== undefined && modeOf(before) === 'enforce'
  if (wasEnforced && !after) alarms.push('an enforced rule was removed')
  if (wasEnforced && after && modeOf(after) !== 'enforce') {
    alarms.push(`a rule is no longer enforced, but ${String(modeOf(after))}`)
  }
  if (after?.['posture'] === 'open' && before?.['posture'] !== 'open') {
    alarms.push('a rule admits every call while the store is silent: its posture became open')
  }
  return alarms
}

function modeOf(document: RuleDocument): unknown {
  return document['mode'] ?? 'enforce'
}

export function logChanges(
  log: Log,
  { what, alarms }: Described,
  {
    version,
    by,
    why,
  }: { readonly version: number; readonly by: string; readonly why: string | undefined },
): void {
  log.info({ version, by, why, what }, 'rules changed by')
  for (const { rule, message } of alarms.slice(0, LISTED_MAX)) {
    log.warn({ version, by, why, rule }, message)
  }
}

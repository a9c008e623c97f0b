/**
 * Finds changes of rules that weaken protection, and logs them as warnings. The admin API and the
 * followers of a rule store and of a rules file use it, so that the log is the same for all three.
 */
import type { Rule } from '@sluice/core'
import type { Log, LogFields } from '../../observability/log/logger.js'

/** Whether a rule refuses calls, and what it does while the store does not answer. */
export interface Protection {
  readonly mode: unknown
  readonly posture: unknown
}

export interface Weakening {
  readonly rule: string
  readonly message: string
}

/** How many rules one change logs by name; a set of 10,000 may be emptied at once. */
const NAMED_MAX = 20

/** `before` and `after` are undefined where there is no such rule. */
export function findWeakenings(
  before: Protection | undefined,
  after: Protection | undefined,
): readonly string[] {
  const found: string[] = []
  const wasEnforced = before?.mode === 'enforce'
  if (wasEnforced && after === undefined) found.push('enforced rule removed')
  if (wasEnforced && after !== undefined && after.mode !== 'enforce') {
    found.push(`rule no longer enforced: mode is now ${String(after.mode)}`)
  }
  if (after?.posture === 'open' && before?.posture !== 'open') {
    found.push('rule now fails open: every call is allowed while the store does not answer')
  }
  return found
}

/** Compares two whole sets by the ids of their rules. */
export function compareRules(
  before: ReadonlyMap<string, Rule>,
  after: ReadonlyMap<string, Rule>,
): readonly Weakening[] {
  const ids = new Set([...before.keys(), ...after.keys()])
  return [...ids].flatMap((rule) =>
    findWeakenings(before.get(rule), after.get(rule)).map((message) => ({ rule, message })),
  )
}

/** `fields` say where the change came from. */
export function logWeakenings(log: Log, weakenings: readonly Weakening[], fields: LogFields): void {
  for (const { rule, message } of weakenings.slice(0, NAMED_MAX))
    log.warn({ ...fields, rule }, message)
  const more = weakenings.length - NAMED_MAX
  if (more > 0) log.warn({ ...fields, more }, 'more rules were weakened')
}

/** A set without rules is valid, and protects nothing. */
export function logNoRules(log: Log, fields: LogFields): void {
  log.warn(fields, 'no rules: every call is allowed')
}

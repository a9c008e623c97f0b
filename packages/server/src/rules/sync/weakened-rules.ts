/**
 * Finds the changes of rules that take protection away, and logs them as warnings. The admin API,
 * the followers of a rule store and of a rules file all use it, so that a limit that no longer
 * refuses is as loud in the log whichever way it came.
 */
import type { Rule } from '@sluice/core'
import type { Log, LogFields } from '../../observability/log/logger.js'

/** What decides whether a rule refuses, and what it does while the store does not answer. */
export interface Protection {
  readonly mode: unknown
  readonly posture: unknown
}

export interface Weakening {
  readonly rule: string
  readonly message: string
}

/** How many rules one change warns of by name; a set of 10,000 may be emptied at once. */
const NAMED_MAX = 20

/** `before` and `after` are undefined where there is no such rule. */
export function findWeakenings(
  before: Protection | undefined,
  after: Protection | undefined,
): readonly string[] {
  const found: string[] = []
  const wasEnforced = before?.mode === 'enforce'
  if (wasEnforced && after === undefined) found.push('an enforced rule was removed')
  if (wasEnforced && after !== undefined && after.mode !== 'enforce') {
    found.push(`a rule is no longer enforced, but ${String(after.mode)}`)
  }
  if (after?.posture === 'open' && before?.posture !== 'open') {
    found.push('a rule admits every call while the store is silent: its posture became open')
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
  if (more > 0) log.warn({ ...fields, more }, 'more rules protect less than they did')
}

/** A set without rules is good, and protects nothing. */
export function logNoRules(log: Log, fields: LogFields): void {
  log.warn(fields, 'there is no rule, so every call is allowed')
}

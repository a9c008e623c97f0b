/** Converts the rules of a file to records of a store, so that the admin API can list them. */
import type { Override, Rule, RuleSet } from '@sluice/core'
import {
  callerId,
  type CandidateDocument,
  type Change,
  MAIN_ID,
  optionalSetFields,
  type OverrideDocument,
  overrideKey,
  type SetFields,
  type StoredRecord,
} from '../store/records.js'
import { deepEqual } from '../../lib/deep-equal.js'

interface RuleInFile extends Readonly<Record<string, unknown>> {
  readonly id: string
  readonly candidate?: CandidateDocument
  readonly overrides?: readonly OverrideDocument[]
}

/**
 * `plain` is the data of the text that `rules` were parsed from. A record that is equal to the one
 * `before` keeps its version.
 */
export function recordsOfFile(
  plain: unknown,
  rules: RuleSet,
  { version, before }: { readonly version: number; readonly before: readonly StoredRecord[] },
): readonly StoredRecord[] {
  const known = new Map(before.map((record) => [`${record.kind} ${record.id}`, record]))
  return [...changesOf(plain, rules)].map((change) => {
    const same = known.get(`${change.kind} ${change.id}`)
    return same !== undefined && deepEqual(same.body, change.body) ? same : { ...change, version }
  })
}

function* changesOf(plain: unknown, { rules, strictPaths }: RuleSet): Generator<Change> {
  // The text was parsed without errors, so it has this shape.
  const isList = Array.isArray(plain)
  const written = (isList ? plain : (plain as { rules: unknown }).rules) as readonly RuleInFile[]
  const fields: Partial<SetFields> = isList ? {} : (plain as Partial<SetFields>)
  const { routes = [] } = fields
  const order = rules.map(({ id }) => id)
  yield {
    kind: 'set',
    id: MAIN_ID,
    body: { routes, strictPaths, ...optionalSetFields(fields), order },
  }
  for (const [index, rule] of rules.entries()) {
    const document = written[index]
    if (document !== undefined) yield* changesOfRule(document, rule)
  }
}

function* changesOfRule(
  { candidate, overrides = [], ...document }: RuleInFile,
  rule: Rule,
): Generator<Change> {
  const { id } = rule
  yield { kind: 'rule', id, body: document }
  if (candidate !== undefined) yield { kind: 'candidate', id, body: candidate }
  for (const [index, override] of rule.overrides.entries()) {
    const written = overrides[index]
    if (written !== undefined) yield overrideOf(rule, override, written)
  }
}

function overrideOf({ id, by }: Rule, override: Override, written: OverrideDocument): Change {
  // The parsed caller, not the written one, which may be a number.
  const caller = Object.fromEntries(override.caller)
  const body = { ...written, caller }
  return { kind: 'override', id: overrideKey(id, callerId(by, caller)), body }
}

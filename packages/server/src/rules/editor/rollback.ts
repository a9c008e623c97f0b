/** Undoes the changes since a version, as a new version. */
import {
  type CandidateDocument,
  EMPTY_SET,
  MAIN_ID,
  type OverrideDocument,
  type RuleDocument,
  type SetDocument,
  splitOverrideKey,
} from '../store/records.js'
import type { PastChange, RuleStore } from '../store/rule-store.js'
import type { Draft } from './draft.js'
import { EditError } from './edit-errors.js'

/** Bodies of records at the version; null: there was none. */
interface PastRecords {
  readonly rules: Map<string, RuleDocument | null>
  readonly candidates: Map<string, CandidateDocument | null>
  readonly overrides: Map<string, OverrideDocument | null>
  /** Undefined: unchanged. */
  set: SetDocument | null | undefined
}

/** Ignores keys and tokens: what was revoked stays revoked. */
async function readPast(changes: AsyncIterable<PastChange>): Promise<PastRecords> {
  const past: PastRecords = {
    rules: new Map(),
    candidates: new Map(),
    overrides: new Map(),
    set: undefined,
  }
  // Newest first, so the body before the oldest change is the one that remains.
  for await (const { kind, id, before } of changes) {
    if (kind === 'rule') past.rules.set(id, before as RuleDocument | null)
    if (kind === 'candidate') past.candidates.set(id, before as CandidateDocument | null)
    if (kind === 'override') past.overrides.set(id, before as OverrideDocument | null)
    if (kind === 'set' && id === MAIN_ID) past.set = before as SetDocument | null
  }
  return past
}

function changesAfter(
  store: RuleStore,
  version: number,
  rule: string | undefined,
): AsyncIterable<PastChange> {
  if (!Number.isSafeInteger(version) || version < 1) throw unknownVersion(store, version)
  return store.changesAfter(version, rule)
}

function unknownVersion(store: RuleStore, version: number): EditError {
  const { keptSince } = store.status()
  const isForgotten = version >= 1 && keptSince !== undefined && version < keptSince
  const message = isForgotten
    ? `version ${version} is no longer kept; accepted: versions kept since version ${keptSince}`
    : `version ${version} is not one of the store; accepted: one that the history lists`
  return new EditError('version_unknown', message)
}

async function orUnknownVersion<Result>(
  store: RuleStore,
  version: number,
  reading: Promise<Result>,
): Promise<Result> {
  try {
    return await reading
  } catch (error) {
    if (error instanceof RangeError) throw unknownVersion(store, version)
    throw error
  }
}

export async function rollbackAll(draft: Draft, store: RuleStore, version: number): Promise<void> {
  const past = await orUnknownVersion(
    store,
    version,
    readPast(changesAfter(store, version, undefined)),
  )
  putBack(draft, past)
  if (past.set === undefined) return
  const set = past.set ?? EMPTY_SET
  draft.setFields(set)
  const present = new Set(draft.set.order)
  const placed = set.order.filter((id) => present.has(id))
  draft.setOrder([...placed, ...present])
}

export async function rollbackOne(
  draft: Draft,
  store: RuleStore,
  { id, version }: { readonly id: string; readonly version: number },
): Promise<void> {
  const past = await orUnknownVersion(store, version, readPast(changesAfter(store, version, id)))
  const isThere = draft.rule(id) !== undefined
  if (!isThere && past.rules.size === 0) {
    throw new EditError('rule_unknown', `there is no rule "${id}", now or at version ${version}`)
  }
  putBack(draft, past)
  if (isThere || draft.rule(id) === undefined) return
  // Restores its place in the order, which only the whole history knows.
  const order = await orUnknownVersion(
    store,
    version,
    readOrder(changesAfter(store, version, undefined), id),
  )
  draft.setOrder(insertInPlace(draft.set.order, id, order ?? []))
}

function putBack(draft: Draft, { rules, candidates, overrides }: PastRecords): void {
  for (const id of new Set([...rules.keys(), ...candidates.keys()])) {
    const present = draft.rule(id)
    const document = rules.has(id) ? rules.get(id) : present?.document
    const candidate = candidates.has(id) ? candidates.get(id) : present?.candidate
    if (document) draft.putRule(id, { document, candidate: candidate ?? undefined })
    else if (present !== undefined) draft.removeRule(id)
  }
  for (const [key, document] of overrides) {
    const { rule, caller } = splitOverrideKey(key)
    draft.putOverride(rule, caller, document)
  }
}

/** Returns the newest order that contains the rule. */
async function readOrder(
  changes: AsyncIterable<PastChange>,
  id: string,
): Promise<readonly string[] | undefined> {
  for await (const { kind, before } of changes) {
    if (kind !== 'set') continue
    const order = (before as SetDocument | null)?.order
    if (order?.includes(id) === true) return order
  }
  return undefined
}

/** Inserts the rule after the nearest rule that preceded it; at the end if it had no place. */
function insertInPlace(
  present: readonly string[],
  id: string,
  past: readonly string[],
): readonly string[] {
  const others = present.filter((other) => other !== id)
  const at = past.indexOf(id)
  if (at === -1) return [...others, id]
  const before = past.slice(0, at).findLast((other) => others.includes(other))
  const place = before === undefined ? 0 : others.indexOf(before) + 1
  return others.toSpliced(place, 0, id)
}

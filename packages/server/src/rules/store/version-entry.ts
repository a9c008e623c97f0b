/** One version of a rule store as it is kept: who changed what, when, why, from what to what. */
import { randomBytes } from 'node:crypto'
import { type Kind, MAIN_ID, type SecretDocument, splitOverrideKey } from './records.js'
import { CHANGES_LISTED_MAX, type PastChange, type PastVersion } from './rule-store.js'

export interface VersionEntry {
  readonly version: number
  /** Random, as 12 hex digits: 48 bits fit a number, and a million of them in memory. */
  readonly mark: string
  /** An ISO time. */
  readonly at: string
  readonly by: string
  readonly why?: string | undefined
  /** Where a history begins: at the first version, and when a store is adopted. */
  readonly lineage?: string | undefined
  readonly changes: readonly PastChange[]
}

export function newMark(): string {
  return randomBytes(6).toString('hex')
}

export function newLineage(): string {
  return randomBytes(8).toString('hex')
}

/** What a new store is made with. */
export function firstEntry(at: string): VersionEntry {
  const body: SecretDocument = { secret: randomBytes(32).toString('hex') }
  return {
    version: 1,
    mark: newMark(),
    at,
    by: 'sluice',
    why: 'the store was made',
    lineage: newLineage(),
    changes: [{ kind: 'secret', id: MAIN_ID, before: null, after: body }],
  }
}

/** The rule that a record belongs to; undefined: none. */
export function ruleOf(kind: Kind, id: string): string | undefined {
  if (kind === 'rule' || kind === 'candidate') return id
  return kind === 'override' ? splitOverrideKey(id).rule : undefined
}

/** Of one rule, or of all. */
export function changesOf(entry: VersionEntry, rule: string | undefined): readonly PastChange[] {
  if (rule === undefined) return entry.changes
  return entry.changes.filter(({ kind, id }) => ruleOf(kind, id) === rule)
}

/** As it is told; `changeCount` is of the rule too, where one was asked for. */
export function pastVersion(entry: VersionEntry, rule: string | undefined): PastVersion {
  const { version, at, by, why } = entry
  const changes = changesOf(entry, rule)
  return {
    version,
    at,
    by,
    why,
    changeCount: changes.length,
    changes: changes.slice(0, CHANGES_LISTED_MAX),
  }
}

/** One version in the history of a rule store: who changed what, when, why, from what to what. */
import { randomBytes } from 'node:crypto'
import { type Kind, MAIN_ID, type SecretDocument, splitOverrideKey } from './records.js'
import { CHANGES_LISTED_MAX, type PastChange, type PastVersion } from './rule-store.js'

export interface VersionEntry {
  readonly version: number
  /** 12 random hex digits: 48 bits fit a number, so that a million of them fit in memory. */
  readonly mark: string
  /** An ISO time. */
  readonly at: string
  readonly by: string
  readonly why?: string | undefined
  /** Set where a lineage starts: at the first version, and when a store is adopted. */
  readonly lineage?: string | undefined
  readonly changes: readonly PastChange[]
}

export function newMark(): string {
  return randomBytes(6).toString('hex')
}

export function newLineage(): string {
  return randomBytes(8).toString('hex')
}

/** Returns the first version of a new store. */
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

/** Returns the rule that a record belongs to; undefined: none. */
export function ruleOf(kind: Kind, id: string): string | undefined {
  if (kind === 'rule' || kind === 'candidate') return id
  return kind === 'override' ? splitOverrideKey(id).rule : undefined
}

/** Returns the changes of one rule, or all. */
export function changesOf(entry: VersionEntry, rule: string | undefined): readonly PastChange[] {
  if (rule === undefined) return entry.changes
  return entry.changes.filter(({ kind, id }) => ruleOf(kind, id) === rule)
}

/** Returns the entry as the history lists it; with a rule, `changeCount` is of that rule. */
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

/** The rules of a record table as one set, as `rules.yaml` shows them. */
import { type VersionEntry, ruleOf } from '../version-entry.js'
import type { RecordTable } from '../record-table.js'
import {
  type CandidateDocument,
  EMPTY_SET,
  type Kind,
  MAIN_ID,
  type OverrideDocument,
  type RuleDocument,
  type SetDocument,
  setFieldsOf,
  type StoredRecord,
} from '../records.js'
import { OVERRIDES_SHOWN_MAX, type YamlRule, type YamlRuleSet } from './rules-yaml-format.js'

export class RuleSetView {
  readonly #table: RecordTable
  /** Record ids of overrides, by rule. */
  readonly #overrides = new Map<string, Set<string>>()
  #version = 0

  constructor(table: RecordTable) {
    this.#table = table
  }

  /** The last version that changed what the view shows. */
  get version(): number {
    return this.#version
  }

  apply({ version, changes }: VersionEntry): void {
    if (this.#version === 0) this.#version = version
    for (const { kind, id, after } of changes) {
      if (ruleOf(kind, id) !== undefined || kind === 'set') this.#version = version
      this.indexOverride(kind, id, after)
    }
  }

  /** Adds the records of a base. */
  applyBase(records: readonly StoredRecord[]): void {
    for (const { kind, id, body } of records) this.indexOverride(kind, id, body)
  }

  /** Sets the version of the base: which older version last changed its records is not known. */
  startAt(version: number): void {
    this.#version = version
  }

  private indexOverride(kind: Kind, id: string, after: unknown): void {
    const rule = ruleOf(kind, id)
    if (kind !== 'override' || rule === undefined) return
    const ids = this.#overrides.get(rule) ?? new Set<string>()
    if (after === null) ids.delete(id)
    else ids.add(id)
    if (ids.size === 0) this.#overrides.delete(rule)
    else this.#overrides.set(rule, ids)
  }

  present(): YamlRuleSet {
    const found = this.#table.body('set', MAIN_ID) as SetDocument | null
    const set = found ?? EMPTY_SET
    // Rules that are missing in the order come last.
    const ids = new Set([...set.order, ...[...this.#table.records('rule')].map(({ id }) => id)])
    const rules = [...ids].flatMap((id) => this.rule(id) ?? [])
    return { version: this.#version, set: setFieldsOf(set), rules }
  }

  private rule(id: string): YamlRule | undefined {
    const document = this.#table.body('rule', id) as RuleDocument | null
    if (document === null) return undefined
    const candidate = this.#table.body('candidate', id) as CandidateDocument | null
    const ids = this.#overrides.get(id) ?? new Set<string>()
    const shown = ids.size > OVERRIDES_SHOWN_MAX ? [] : [...ids].toSorted()
    return {
      document,
      candidate: candidate ?? undefined,
      overrideCount: ids.size,
      overrides: shown.map((key) => this.#table.body('override', key) as OverrideDocument),
    }
  }
}

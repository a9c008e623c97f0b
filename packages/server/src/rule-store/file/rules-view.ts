/** The rules in a ledger as one set, with what a file of them shows. */
import { type Entry, ruleOf } from '../entry.js'
import type { Ledger } from '../ledger.js'
import {
  type CandidateDocument,
  type Kind,
  MAIN,
  type OverrideDocument,
  type RuleDocument,
  type SetDocument,
  type Stored,
} from '../records.js'
import { OVERRIDES_SHOWN_MAX, type WrittenRule, type WrittenSet } from './rules-document.js'

const EMPTY: SetDocument = { routes: [], strictPaths: false, order: [] }

export class RulesView {
  readonly #ledger: Ledger
  /** Ids of records, by rule. */
  readonly #overrides = new Map<string, Set<string>>()
  #version = 0

  constructor(ledger: Ledger) {
    this.#ledger = ledger
  }

  /** The last version that changed any of what is shown. */
  get version(): number {
    return this.#version
  }

  apply({ version, changes }: Entry): void {
    if (this.#version === 0) this.#version = version
    for (const { kind, id, after } of changes) {
      if (ruleOf(kind, id) !== undefined || kind === 'set') this.#version = version
      this.note(kind, id, after)
    }
  }

  /** Records that the ledger begins with. */
  applyBase(records: readonly Stored[]): void {
    for (const { kind, id, body } of records) this.note(kind, id, body)
  }

  /** As of the version that it begins with: which older one changed them last is not known. */
  startAt(version: number): void {
    this.#version = version
  }

  private note(kind: Kind, id: string, after: unknown): void {
    const rule = ruleOf(kind, id)
    if (kind !== 'override' || rule === undefined) return
    const ids = this.#overrides.get(rule) ?? new Set<string>()
    if (after === null) ids.delete(id)
    else ids.add(id)
    if (ids.size === 0) this.#overrides.delete(rule)
    else this.#overrides.set(rule, ids)
  }

  present(): WrittenSet {
    const found = this.#ledger.body('set', MAIN) as SetDocument | null
    const { routes, strictPaths, order } = found ?? EMPTY
    // A record that the order forgot is still a rule of this store.
    const ids = new Set([...order, ...[...this.#ledger.records('rule')].map(({ id }) => id)])
    const rules = [...ids].flatMap((id) => this.rule(id) ?? [])
    return { version: this.#version, set: { routes, strictPaths }, rules }
  }

  private rule(id: string): WrittenRule | undefined {
    const document = this.#ledger.body('rule', id) as RuleDocument | null
    if (document === null) return undefined
    const candidate = this.#ledger.body('candidate', id) as CandidateDocument | null
    const ids = this.#overrides.get(id) ?? new Set<string>()
    const shown = ids.size > OVERRIDES_SHOWN_MAX ? [] : [...ids].toSorted()
    return {
      document,
      candidate: candidate ?? undefined,
      overrideCount: ids.size,
      overrides: shown.map((key) => this.#ledger.body('override', key) as OverrideDocument),
    }
  }
}

/**
 * A catalog with the changes of an edit on top. Work is proportional to the changes: a catalog may
 * have 100,000 overrides.
 */
import {
  type Change,
  MAIN_ID,
  type OverrideDocument,
  overrideKey,
  type SetDocument,
  type SetFields,
  setFieldsOf,
  type ShadowDocument,
} from '../store/records.js'
import type { RuleCatalog } from '../sync/rule-catalog.js'
import type { RuleDocuments } from '../sync/rule-parser.js'
import { deepEqual } from '../../lib/deep-equal.js'

/** What an edit does to the overrides of one rule. */
export interface OverrideCounts {
  readonly added: number
  readonly changed: number
  readonly removed: number
}

const NONE: ReadonlyMap<string, OverrideDocument> = new Map()
const NO_OVERRIDES: OverrideCounts = { added: 0, changed: 0, removed: 0 }

export class Draft {
  readonly catalog: RuleCatalog
  /** Undefined: removed. */
  readonly #rules = new Map<string, RuleDocuments | undefined>()
  /** By rule and caller. Null: removed. */
  readonly #overrides = new Map<string, Map<string, OverrideDocument | null>>()
  readonly #orderBefore: readonly string[]
  /** Undefined: unchanged. */
  #order: Set<string> | undefined
  #fields: SetFields
  #shadow: ShadowDocument | undefined

  constructor(catalog: RuleCatalog) {
    this.catalog = catalog
    this.#orderBefore = catalog.set.order
    this.#fields = setFieldsOf(catalog.set)
    this.#shadow = catalog.set.shadow
  }

  get set(): SetDocument {
    const order = this.#order === undefined ? this.#orderBefore : [...this.#order]
    const shadow = this.#shadow
    return {
      ...this.#fields,
      order,
      ...(shadow !== undefined && { shadow }),
    }
  }

  get shadow(): ShadowDocument | undefined {
    return this.#shadow
  }

  setShadow(shadow: ShadowDocument | undefined): void {
    const isNone = shadow?.all === undefined && Object.keys(shadow?.rules ?? {}).length === 0
    this.#shadow = isNone ? undefined : shadow
  }

  /** Ends the shadow of one rule; a shadow of all rules stays. */
  endShadow(id: string): void {
    if (this.#shadow?.rules === undefined || !Object.hasOwn(this.#shadow.rules, id)) return
    const { [id]: _ended, ...rules } = this.#shadow.rules
    const { all } = this.#shadow
    this.setShadow({
      ...(all !== undefined && { all }),
      ...(Object.keys(rules).length > 0 && { rules }),
    })
  }

  get strictPaths(): boolean {
    return this.#fields.strictPaths
  }

  rule(id: string): RuleDocuments | undefined {
    return this.#rules.has(id) ? this.#rules.get(id) : this.catalog.rule(id)
  }

  /** Whether the edit put or removed the rule, even if it is unchanged. */
  isPut(id: string): boolean {
    return this.#rules.has(id)
  }

  /** Returns the ids of rules that are new, removed or changed. */
  touchedRules(): ReadonlySet<string> {
    return new Set([...this.#rules].filter(([id]) => this.isTouched(id)).map(([id]) => id))
  }

  private isTouched(id: string): boolean {
    const before = this.catalog.rule(id)
    const after = this.rule(id)
    return before?.document !== after?.document || before?.candidate !== after?.candidate
  }

  /** Adds a new rule at the end of the set. Documents that are equal to before are not touched. */
  putRule(id: string, { document, candidate }: RuleDocuments): void {
    const before = this.catalog.rule(id)
    this.#rules.set(id, {
      document: before && deepEqual(before.document, document) ? before.document : document,
      candidate: deepEqual(before?.candidate, candidate) ? before?.candidate : candidate,
    })
    if (this.#order !== undefined || before === undefined) this.ownOrder().add(id)
    // Overrides left over from an earlier rule with this id do not belong to the new one.
    if (before === undefined && !this.#overrides.has(id)) this.replaceOverrides(id, NONE)
  }

  /** Removes the rule with its candidate, overrides and shadow. */
  removeRule(id: string): void {
    this.#rules.set(id, undefined)
    this.ownOrder().delete(id)
    // A later rule with this id is enforced.
    this.endShadow(id)
    this.replaceOverrides(id, NONE)
  }

  setOrder(order: readonly string[]): void {
    this.#order = new Set(order)
  }

  private ownOrder(): Set<string> {
    this.#order ??= new Set(this.#orderBefore)
    return this.#order
  }

  setFields(fields: SetFields): void {
    this.#fields = setFieldsOf(fields)
  }

  override(rule: string, caller: string): OverrideDocument | undefined {
    const changed = this.#overrides.get(rule)?.get(caller)
    if (changed !== undefined) return changed ?? undefined
    return this.catalog.override(rule, caller)?.document
  }

  putOverride(rule: string, caller: string, document: OverrideDocument | null): void {
    let overrides = this.#overrides.get(rule)
    if (overrides === undefined) this.#overrides.set(rule, (overrides = new Map()))
    const before = this.catalog.override(rule, caller)?.document ?? null
    if (deepEqual(before, document)) overrides.delete(caller)
    else overrides.set(caller, document)
  }

  /** Replaces all overrides of a rule; `documents` is by caller. */
  replaceOverrides(rule: string, documents: ReadonlyMap<string, OverrideDocument>): void {
    this.#overrides.delete(rule)
    for (const { id } of this.catalog.allOverrides(rule)) {
      if (!documents.has(id)) this.putOverride(rule, id, null)
    }
    for (const [caller, document] of documents) this.putOverride(rule, caller, document)
  }

  /** Returns overrides that are new or changed, by rule and caller; null: removed. */
  touchedOverrides(): ReadonlyMap<string, ReadonlyMap<string, OverrideDocument | null>> {
    return this.#overrides
  }

  /** Yields the stored overrides of a rule that do not change. */
  *untouchedOverrides(rule: string): Iterable<readonly [string, OverrideDocument]> {
    const touched = this.#overrides.get(rule)
    for (const { id, document } of this.catalog.allOverrides(rule)) {
      if (touched?.has(id) !== true) yield [id, document]
    }
  }

  countOverrides(rule: string): OverrideCounts {
    const touched = this.#overrides.get(rule)
    if (touched === undefined) return NO_OVERRIDES
    const counts = { added: 0, changed: 0, removed: 0 }
    for (const [caller, document] of touched) {
      if (document === null) counts.removed++
      else if (this.catalog.override(rule, caller) === undefined) counts.added++
      else counts.changed++
    }
    return counts
  }

  isSetTouched(): boolean {
    const { set } = this.catalog
    return (
      (this.#order !== undefined && !deepEqual([...this.#order], this.#orderBefore)) ||
      !deepEqual(this.#fields, setFieldsOf(set)) ||
      !deepEqual(this.#shadow, set.shadow)
    )
  }

  /** Overrides come last: those beyond the size of a commit can be removed later. */
  changes(): readonly Change[] {
    const changes: Change[] = []
    if (this.isSetTouched()) changes.push({ kind: 'set', id: MAIN_ID, body: this.set })
    for (const id of this.touchedRules()) {
      const before = this.catalog.rule(id)
      const after = this.#rules.get(id)
      // Also for a change of the candidate alone: the version of a rule covers both.
      changes.push({ kind: 'rule', id, body: after?.document ?? null })
      if (before?.candidate === after?.candidate) continue
      changes.push({ kind: 'candidate', id, body: after?.candidate ?? null })
    }
    for (const [rule, overrides] of this.#overrides) {
      for (const [caller, body] of overrides) {
        changes.push({ kind: 'override', id: overrideKey(rule, caller), body })
      }
    }
    return changes
  }
}

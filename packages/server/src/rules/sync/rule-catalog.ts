/**
 * The content of a rule store as this node knows it: the follower fills it chunk by chunk, and the
 * admin API and the editor read it. API keys are not in it: see `KeyReceiver`.
 */
import type { RuleSet } from '@sluice/core'
import {
  type OverrideDocument,
  overrideKey,
  type SetDocument,
  type StoredRecord,
  type TokenDocument,
  setFieldsOf,
} from '../store/records.js'
import type { Position, RecordChunk } from '../store/rule-store.js'
import { CatalogState } from './catalog-state.js'
import { type RuleDocuments, RuleParser } from './rule-parser.js'

export interface CatalogRule extends RuleDocuments {
  /** The version of the last change to the rule or its candidate. */
  readonly version: number
  readonly overrideCount: number
}

export interface CatalogOverride {
  /** The `callerId` of the override. */
  readonly id: string
  readonly document: OverrideDocument
  readonly version: number
}

export interface CatalogToken {
  readonly id: string
  readonly document: TokenDocument
  readonly version: number
}

export interface RuleCatalog {
  /** Parses the rules of this catalog, and drafts of them; each document once. */
  readonly parser: RuleParser
  /** Undefined until the store was read. */
  readonly position: Position | undefined
  /** The version of the last change to the set: rules, their order, routes or candidates. */
  readonly rulesVersion: number
  readonly set: SetDocument
  /** In the order of the set. */
  rules(): readonly CatalogRule[]
  rule(id: string): CatalogRule | undefined
  /** Returns the rules that have no errors, parsed, without their overrides. */
  parsedSet(): RuleSet
  /** Returns a page in the order of ids, starting after `after`. */
  overrides(rule: string, after: string | undefined, limit: number): readonly CatalogOverride[]
  override(rule: string, id: string): CatalogOverride | undefined
  allOverrides(rule: string): Iterable<CatalogOverride>
  tokens(): readonly CatalogToken[]
  /** The secret of key hashes; undefined until it was read. */
  readonly keySecret: string | undefined
}

/** An override that may have changed. */
interface OverrideUpdate {
  /** The `overrideKey` of the override. */
  readonly key: string
  readonly before: OverrideDocument | undefined
  readonly after: OverrideDocument | undefined
}

/** What the chunks of one read changed in the catalog. */
export interface CatalogUpdate {
  readonly isWhole: boolean
  /** Whether the set, a rule or a candidate changed, so that rules have to be parsed again. */
  readonly rulesChanged: boolean
  /** Valid until the next read. After a whole read: all overrides, and those that were removed. */
  overrides(): Iterable<OverrideUpdate>
}

/** A catalog as the follower of the store writes to it. */
export interface WritableCatalog extends RuleCatalog {
  /** Adds a chunk. Nothing of a read is visible before its last chunk, which has a `position`. */
  addChunk(chunk: RecordChunk): CatalogUpdate | undefined
  /** Drops the chunks of a read that was not completed. */
  discardChunks(): void
}

export function createCatalog(): WritableCatalog {
  return new ChunkedCatalog()
}

interface ParsedCatalog {
  readonly rules: readonly CatalogRule[]
  readonly source: SetDocument
  readonly set: RuleSet
}

class ChunkedCatalog implements WritableCatalog {
  readonly parser = new RuleParser()
  #position: Position | undefined
  #state = new CatalogState()
  /** The state that a whole read in progress builds; undefined: the read is of changes. */
  #next: CatalogState | undefined
  #changes: StoredRecord[] = []
  /** The last result of `parsedSet`, valid while the rules and the set are the same objects. */
  #parsed: ParsedCatalog | undefined

  get position(): Position | undefined {
    return this.#position
  }

  get rulesVersion(): number {
    return this.#state.rulesVersion
  }

  get set(): SetDocument {
    return this.#state.set
  }

  get keySecret(): string | undefined {
    return this.#state.secret
  }

  rules(): readonly CatalogRule[] {
    return this.#state.rules()
  }

  rule(id: string): CatalogRule | undefined {
    return this.#state.rule(id)
  }

  parsedSet(): RuleSet {
    const rules = this.rules()
    const { set: source, parser } = this
    if (this.#parsed?.rules === rules && this.#parsed.source === source) return this.#parsed.set
    const good = rules.filter((rule) => parser.parseRule(rule).errors.length === 0)
    const valid = { ...setFieldsOf(source), rules: good.map((rule) => parser.combine(rule)) }
    // Without warnings: finding them takes longest, and the caller does not report them.
    const parsed = parser.parseSet(valid, { warnOf: new Set() })
    const set = parsed.rules ?? {
      routes: [],
      strictPaths: source.strictPaths,
      rules: [],
    }
    this.#parsed = { rules, source, set }
    return set
  }

  overrides(rule: string, after: string | undefined, limit: number): readonly CatalogOverride[] {
    return this.#state.overrideList(rule)?.page(after, limit) ?? []
  }

  override(rule: string, id: string): CatalogOverride | undefined {
    return this.#state.overrideList(rule)?.get(id)
  }

  allOverrides(rule: string): Iterable<CatalogOverride> {
    return this.#state.overrideList(rule)?.all() ?? []
  }

  tokens(): readonly CatalogToken[] {
    return this.#state.tokens()
  }

  discardChunks(): void {
    this.#next = undefined
    this.#changes = []
  }

  addChunk({ isWhole, records, position }: RecordChunk): CatalogUpdate | undefined {
    if (isWhole) {
      this.discardChunks()
      this.#next = new CatalogState(this.#state)
    }
    if (this.#next === undefined) {
      for (const record of records) if (record.kind !== 'key') this.#changes.push(record)
    } else {
      for (const record of records) this.#next.apply(record)
    }
    if (position === undefined) return undefined
    this.#position = position
    return this.#next === undefined ? this.applyChanges() : this.publish(this.#next)
  }

  private applyChanges(): CatalogUpdate {
    const changes = this.#changes
    this.discardChunks()
    const state = this.#state
    const overrides: OverrideUpdate[] = []
    let rulesChanged = false
    for (const record of changes) {
      if (record.kind === 'override') {
        const before = state.override(record.id)?.document
        overrides.push({ key: record.id, before, after: record.body ?? undefined })
      }
      if (state.apply(record)) rulesChanged = true
    }
    return {
      isWhole: false,
      rulesChanged,
      overrides: () => overrides,
    }
  }

  private publish(next: CatalogState): CatalogUpdate {
    const before = this.#state
    this.discardChunks()
    next.releasePrevious()
    this.#state = next
    return {
      isWhole: true,
      rulesChanged: true,
      overrides: () => compareOverrides(before, next),
    }
  }
}

function* compareOverrides(before: CatalogState, after: CatalogState): Generator<OverrideUpdate> {
  for (const [rule, list] of after.overrideLists()) {
    const old = before.overrideList(rule)
    for (const { id, document } of list.all()) {
      yield { key: overrideKey(rule, id), before: old?.get(id)?.document, after: document }
    }
  }
  for (const [rule, list] of before.overrideLists()) {
    const now = after.overrideList(rule)
    for (const { id, document } of list.all()) {
      if (now?.get(id) === undefined) {
        yield { key: overrideKey(rule, id), before: document, after: undefined }
      }
    }
  }
}

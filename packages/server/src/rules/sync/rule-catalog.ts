/** Everything a rule store holds, as this node knows it: what the admin API reads and edits. */
import type {
  CandidateDocument,
  OverrideDocument,
  RuleDocument,
  SetDocument,
  TokenDocument,
} from '../store/records.js'
import type { RecordChunk, Position } from '../store/rule-store.js'

export interface CatalogRule {
  /** Without `candidate` and `overrides`. */
  readonly document: RuleDocument
  readonly candidate: CandidateDocument | undefined
  /** Of the last change to it or its candidate. */
  readonly version: number
  readonly overrideCount: number
}

export interface CatalogOverride {
  /** `callerId` of it. */
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
  /** Undefined: nothing was read yet. */
  readonly position: Position | undefined
  /** Of the last change to the set as a whole: rules, their order, routes, candidates. */
  readonly rulesVersion: number
  readonly set: SetDocument
  /** In the order of the set. */
  rules(): readonly CatalogRule[]
  rule(id: string): CatalogRule | undefined
  /** In the order of their ids, those above `after` only. */
  overrides(rule: string, after: string | undefined, limit: number): readonly CatalogOverride[]
  override(rule: string, id: string): CatalogOverride | undefined
  allOverrides(rule: string): Iterable<CatalogOverride>
  tokens(): readonly CatalogToken[]
  /** The secret of key hashes; undefined until the store told it. */
  readonly keySecret: string | undefined
}

/** What a chunk, or several up to a position, changed in the book. */
export interface CatalogChanges {
  readonly isWhole: boolean
  /** Whether the set, a rule or a candidate changed, so that rules have to be parsed again. */
  readonly rulesChanged: boolean
  /** Ids of records (`overrideKey`) that changed or went. Empty where `isWhole`. */
  readonly overridesChanged: readonly string[]
}

/** A book that can be written to, by whoever follows the store. */
export interface UpdatableCatalog extends RuleCatalog {
  /** Takes the chunks of one reading, whole; nothing of it shows before `position` came. */
  addChunk(chunk: RecordChunk): CatalogChanges | undefined
}

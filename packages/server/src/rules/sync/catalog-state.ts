/** The records of a rule store, indexed by kind and id: the content of a `RuleCatalog`. */
import {
  type CandidateDocument,
  EMPTY_SET,
  type OverrideDocument,
  type RuleDocument,
  type SetDocument,
  splitOverrideKey,
  type StoredRecord,
  type TokenDocument,
} from '../store/records.js'
import { OverrideList } from './override-list.js'
import type { CatalogOverride, CatalogRule, CatalogToken } from './rule-catalog.js'
import { deepEqual } from '../../lib/deep-equal.js'

interface Versioned<Document> {
  readonly document: Document
  readonly version: number
}

export class CatalogState {
  /** The state before. Equal documents are taken from it, so that only changed ones are parsed. */
  #previous: CatalogState | undefined
  readonly #rules = new Map<string, Versioned<RuleDocument>>()
  readonly #candidates = new Map<string, Versioned<CandidateDocument>>()
  readonly #overrideLists = new Map<string, OverrideList>()
  readonly #tokens = new Map<string, CatalogToken>()
  #set: SetDocument | undefined
  #secret: string | undefined
  #rulesVersion = 0
  /** Derived from the above on first use. */
  #list: readonly CatalogRule[] | undefined
  #wholeSet: SetDocument | undefined

  constructor(previous?: CatalogState) {
    this.#previous = previous
  }

  /** Called when this state is complete; otherwise every state would retain all before it. */
  releasePrevious(): void {
    this.#previous = undefined
  }

  get rulesVersion(): number {
    return this.#rulesVersion
  }

  get secret(): string | undefined {
    return this.#secret
  }

  /** Its order names exactly the rules that exist, whatever was stored. */
  get set(): SetDocument {
    this.#wholeSet ??= { ...(this.#set ?? EMPTY_SET), order: this.order() }
    return this.#wholeSet
  }

  rules(): readonly CatalogRule[] {
    this.#list ??= this.set.order.flatMap((id) => this.rule(id) ?? [])
    return this.#list
  }

  rule(id: string): CatalogRule | undefined {
    const held = this.#rules.get(id)
    if (held === undefined) return undefined
    const candidate = this.#candidates.get(id)
    return {
      document: held.document,
      candidate: candidate?.document,
      version: Math.max(held.version, candidate?.version ?? 0),
      overrideCount: this.#overrideLists.get(id)?.size ?? 0,
    }
  }

  overrideList(rule: string): OverrideList | undefined {
    return this.#overrideLists.get(rule)
  }

  override(key: string): CatalogOverride | undefined {
    const { rule, caller } = splitOverrideKey(key)
    return this.#overrideLists.get(rule)?.get(caller)
  }

  overrideLists(): Iterable<readonly [rule: string, list: OverrideList]> {
    return this.#overrideLists
  }

  tokens(): readonly CatalogToken[] {
    return [...this.#tokens.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  /** Returns whether rules have to be parsed again. */
  apply(record: StoredRecord): boolean {
    const { kind, id, body, version } = record
    switch (kind) {
      case 'set':
        return this.putSet(body, version)
      case 'rule': {
        const document = body === null ? undefined : namedRule(id, body)
        const known = this.knownRule(id)
        return this.setVersioned(
          this.#rules,
          id,
          { document: reuseIfEqual(known, document), version },
          known,
        )
      }
      case 'candidate': {
        const known = this.knownCandidate(id)
        const document = reuseIfEqual(known, body ?? undefined)
        return this.setVersioned(this.#candidates, id, { document, version }, known)
      }
      case 'override':
        this.putOverride(id, body, version)
        break
      case 'token':
        this.putToken(id, body, version)
        break
      case 'secret':
        this.#secret = body?.secret
        break
      case 'key':
        break
    }
    return false
  }

  private putSet(body: SetDocument | null, version: number): boolean {
    this.#rulesVersion = Math.max(this.#rulesVersion, version)
    this.forgetLists()
    const known = this.knownSet()
    this.#set = reuseIfEqual(known, body ?? undefined)
    return this.#set !== known
  }

  private setVersioned<Document>(
    entries: Map<string, Versioned<Document>>,
    id: string,
    { document, version }: Versioned<Document | undefined>,
    known: Document | undefined,
  ): boolean {
    this.#rulesVersion = Math.max(this.#rulesVersion, version)
    this.forgetLists()
    if (document === undefined) entries.delete(id)
    else entries.set(id, { document, version })
    return document !== known
  }

  private knownSet(): SetDocument | undefined {
    return this.#set ?? this.#previous?.knownSet()
  }

  private knownRule(id: string): RuleDocument | undefined {
    return this.#rules.get(id)?.document ?? this.#previous?.knownRule(id)
  }

  private knownCandidate(id: string): CandidateDocument | undefined {
    return this.#candidates.get(id)?.document ?? this.#previous?.knownCandidate(id)
  }

  private putOverride(key: string, document: OverrideDocument | null, version: number): void {
    const { rule, caller } = splitOverrideKey(key)
    let overrideList = this.#overrideLists.get(rule)
    this.#list = undefined
    if (document === null) {
      overrideList?.delete(caller)
      if (overrideList?.size === 0) this.#overrideLists.delete(rule)
      return
    }
    if (overrideList === undefined) {
      overrideList = new OverrideList()
      this.#overrideLists.set(rule, overrideList)
    }
    overrideList.set({ id: caller, document, version })
  }

  private putToken(id: string, document: TokenDocument | null, version: number): void {
    if (document === null) this.#tokens.delete(id)
    else this.#tokens.set(id, { id, document, version })
  }

  private forgetLists(): void {
    this.#list = undefined
    this.#wholeSet = undefined
  }

  /** Ids without a rule are left out; rules that the order does not name come last. */
  private order(): readonly string[] {
    const given: unknown = this.#set?.order
    const ids = new Set<string>()
    for (const id of Array.isArray(given) ? (given as readonly unknown[]) : []) {
      if (typeof id === 'string' && this.#rules.has(id)) ids.add(id)
    }
    const others = [...this.#rules.keys()].filter((id) => !ids.has(id))
    return [...ids, ...others.sort()]
  }
}

/** Returns the known document if the other is equal to it. */
function reuseIfEqual<Document>(known: Document, found: Document): Document {
  return deepEqual(known, found) ? known : found
}

/**
 * The store may have been edited by hand. The id of the record wins over the id in its body, and a
 * body that is not a map becomes a rule without limits, which is reported as invalid by its id.
 */
function namedRule(id: string, body: RuleDocument): RuleDocument {
  const isMap = typeof body === 'object' && !Array.isArray(body)
  if (!isMap) return { id }
  return body.id === id ? body : { ...body, id }
}

/** What a book holds: the records of a rule store, each where it is looked for. */
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
  /** Whose documents are kept where they are the same: rules are read again only if they differ. */
  #previous: CatalogState | undefined
  readonly #rules = new Map<string, Versioned<RuleDocument>>()
  readonly #candidates = new Map<string, Versioned<CandidateDocument>>()
  readonly #overrideLists = new Map<string, OverrideList>()
  readonly #tokens = new Map<string, CatalogToken>()
  #set: SetDocument | undefined
  #secret: string | undefined
  #rulesVersion = 0
  /** Made of the above when they are asked for. */
  #list: readonly CatalogRule[] | undefined
  #wholeSet: SetDocument | undefined

  constructor(previous?: CatalogState) {
    this.#previous = previous
  }

  /** Once it is whole: else it would keep that one, and that the one before it. */
  releasePrevious(): void {
    this.#previous = undefined
  }

  get rulesVersion(): number {
    return this.#rulesVersion
  }

  get secret(): string | undefined {
    return this.#secret
  }

  /** Its order is that of the rules there are, whatever was stored. */
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

  overrideLists(): Iterable<readonly [rule: string, shelf: OverrideList]> {
    return this.#overrideLists
  }

  tokens(): readonly CatalogToken[] {
    return [...this.#tokens.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  /** Whether rules have to be read again. */
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

  /** Ids that are no rule are left out; rules that stand nowhere come last. */
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

/** The one that is known already, where the other says the same. */
function reuseIfEqual<Document>(known: Document, found: Document): Document {
  return deepEqual(known, found) ? known : found
}

/**
 * Somebody may have written into the store by hand: the name of the record is the one that counts,
 * and what is no rule at all is one without limits, which is refused by its name.
 */
function namedRule(id: string, body: RuleDocument): RuleDocument {
  const isMap = typeof body === 'object' && !Array.isArray(body)
  if (!isMap) return { id }
  return body.id === id ? body : { ...body, id }
}

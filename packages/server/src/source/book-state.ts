/** What a book holds: the records of a rule store, each where it is looked for. */
import {
  type CandidateDocument,
  type OverrideDocument,
  type RuleDocument,
  type SetDocument,
  splitOverrideKey,
  type Stored,
  type TokenDocument,
} from '../rule-store/records.js'
import { OverrideShelf } from './override-shelf.js'
import type { BookOverride, BookRule, BookToken } from './rule-book.js'
import { isSame } from '../same.js'

interface Held<Document> {
  readonly document: Document
  readonly version: number
}

const EMPTY_SET: SetDocument = { routes: [], strictPaths: false, order: [] }

export class BookState {
  /** Whose documents are kept where they are the same: rules are read again only if they differ. */
  #before: BookState | undefined
  readonly #rules = new Map<string, Held<RuleDocument>>()
  readonly #candidates = new Map<string, Held<CandidateDocument>>()
  readonly #shelves = new Map<string, OverrideShelf>()
  readonly #tokens = new Map<string, BookToken>()
  #set: SetDocument | undefined
  #secret: string | undefined
  #rulesVersion = 0
  /** Made of the above when they are asked for. */
  #list: readonly BookRule[] | undefined
  #wholeSet: SetDocument | undefined

  constructor(before?: BookState) {
    this.#before = before
  }

  /** Once it is whole: else it would keep that one, and that the one before it. */
  forgetBefore(): void {
    this.#before = undefined
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

  rules(): readonly BookRule[] {
    this.#list ??= this.set.order.flatMap((id) => this.rule(id) ?? [])
    return this.#list
  }

  rule(id: string): BookRule | undefined {
    const held = this.#rules.get(id)
    if (held === undefined) return undefined
    const candidate = this.#candidates.get(id)
    return {
      document: held.document,
      candidate: candidate?.document,
      version: Math.max(held.version, candidate?.version ?? 0),
      overrideCount: this.#shelves.get(id)?.size ?? 0,
    }
  }

  shelf(rule: string): OverrideShelf | undefined {
    return this.#shelves.get(rule)
  }

  override(key: string): BookOverride | undefined {
    const { rule, caller } = splitOverrideKey(key)
    return this.#shelves.get(rule)?.get(caller)
  }

  shelves(): Iterable<readonly [rule: string, shelf: OverrideShelf]> {
    return this.#shelves
  }

  tokens(): readonly BookToken[] {
    return [...this.#tokens.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  /** Whether rules have to be read again. */
  put(record: Stored): boolean {
    const { kind, id, body, version } = record
    switch (kind) {
      case 'set':
        return this.putSet(body, version)
      case 'rule': {
        const document = body === null ? undefined : namedRule(id, body)
        const known = this.knownRule(id)
        return this.hold(this.#rules, id, { document: same(known, document), version }, known)
      }
      case 'candidate': {
        const known = this.knownCandidate(id)
        const document = same(known, body ?? undefined)
        return this.hold(this.#candidates, id, { document, version }, known)
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
    this.#set = same(known, body ?? undefined)
    return this.#set !== known
  }

  private hold<Document>(
    held: Map<string, Held<Document>>,
    id: string,
    { document, version }: Held<Document | undefined>,
    known: Document | undefined,
  ): boolean {
    this.#rulesVersion = Math.max(this.#rulesVersion, version)
    this.forgetLists()
    if (document === undefined) held.delete(id)
    else held.set(id, { document, version })
    return document !== known
  }

  private knownSet(): SetDocument | undefined {
    return this.#set ?? this.#before?.knownSet()
  }

  private knownRule(id: string): RuleDocument | undefined {
    return this.#rules.get(id)?.document ?? this.#before?.knownRule(id)
  }

  private knownCandidate(id: string): CandidateDocument | undefined {
    return this.#candidates.get(id)?.document ?? this.#before?.knownCandidate(id)
  }

  private putOverride(key: string, document: OverrideDocument | null, version: number): void {
    const { rule, caller } = splitOverrideKey(key)
    let shelf = this.#shelves.get(rule)
    this.#list = undefined
    if (document === null) {
      shelf?.delete(caller)
      if (shelf?.size === 0) this.#shelves.delete(rule)
      return
    }
    if (shelf === undefined) {
      shelf = new OverrideShelf()
      this.#shelves.set(rule, shelf)
    }
    shelf.put({ id: caller, document, version })
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
function same<Document>(known: Document, found: Document): Document {
  return isSame(known, found) ? known : found
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

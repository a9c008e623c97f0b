/**
 * A book of a rule store: takes what is read of the store chunk by chunk, and shows it when the
 * last one came. Keys are not in it; a million of them live elsewhere, see `KeySink`.
 */
import { type OverrideDocument, overrideKey, type Stored } from '../rule-store/records.js'
import type { Chunk, Position } from '../rule-store/rule-store.js'
import { BookState } from './book-state.js'
import type {
  BookNews,
  BookOverride,
  BookRule,
  BookToken,
  RuleBook,
  WritableBook,
} from './rule-book.js'

/** An override that may have changed. */
interface OverrideNews {
  /** `overrideKey` of it. */
  readonly key: string
  readonly before: OverrideDocument | undefined
  readonly after: OverrideDocument | undefined
}

export interface TakenNews extends BookNews {
  /** Good until the next reading. After a whole one these are all, with those that went. */
  overrides(): Iterable<OverrideNews>
}

export interface Book extends WritableBook {
  take(chunk: Chunk): TakenNews | undefined
  /** Forgets what came of a reading that did not end. */
  abandon(): void
}

export function createBook(): Book {
  return new StoreBook()
}

class StoreBook implements Book {
  #position: Position | undefined
  #state = new BookState()
  /** Of the reading under way: everything, or changes. */
  #next: BookState | undefined
  #changes: Stored[] = []

  get position(): Position | undefined {
    return this.#position
  }

  get rulesVersion(): number {
    return this.#state.rulesVersion
  }

  get set(): RuleBook['set'] {
    return this.#state.set
  }

  get keySecret(): string | undefined {
    return this.#state.secret
  }

  rules(): readonly BookRule[] {
    return this.#state.rules()
  }

  rule(id: string): BookRule | undefined {
    return this.#state.rule(id)
  }

  overrides(rule: string, after: string | undefined, limit: number): readonly BookOverride[] {
    return this.#state.shelf(rule)?.page(after, limit) ?? []
  }

  override(rule: string, id: string): BookOverride | undefined {
    return this.#state.shelf(rule)?.get(id)
  }

  allOverrides(rule: string): Iterable<BookOverride> {
    return this.#state.shelf(rule)?.all() ?? []
  }

  tokens(): readonly BookToken[] {
    return this.#state.tokens()
  }

  abandon(): void {
    this.#next = undefined
    this.#changes = []
  }

  take({ isWhole, records, position }: Chunk): TakenNews | undefined {
    if (isWhole) {
      this.abandon()
      this.#next = new BookState(this.#state)
    }
    if (this.#next === undefined) {
      for (const record of records) if (record.kind !== 'key') this.#changes.push(record)
    } else {
      for (const record of records) this.#next.put(record)
    }
    if (position === undefined) return undefined
    this.#position = position
    return this.#next === undefined ? this.applyChanges() : this.showNext(this.#next)
  }

  private applyChanges(): TakenNews {
    const changes = this.#changes
    this.abandon()
    const state = this.#state
    const overrides: OverrideNews[] = []
    let rulesChanged = false
    for (const record of changes) {
      if (record.kind === 'override') {
        const before = state.override(record.id)?.document
        overrides.push({ key: record.id, before, after: record.body ?? undefined })
      }
      if (state.put(record)) rulesChanged = true
    }
    return {
      isWhole: false,
      rulesChanged,
      overridesChanged: overrides.map(({ key }) => key),
      overrides: () => overrides,
    }
  }

  private showNext(next: BookState): TakenNews {
    const before = this.#state
    this.abandon()
    next.forgetBefore()
    this.#state = next
    return {
      isWhole: true,
      rulesChanged: true,
      overridesChanged: [],
      overrides: () => compareShelves(before, next),
    }
  }
}

function* compareShelves(before: BookState, after: BookState): Generator<OverrideNews> {
  for (const [rule, shelf] of after.shelves()) {
    const old = before.shelf(rule)
    for (const { id, document } of shelf.all()) {
      yield { key: overrideKey(rule, id), before: old?.get(id)?.document, after: document }
    }
  }
  for (const [rule, shelf] of before.shelves()) {
    const now = after.shelf(rule)
    for (const { id, document } of shelf.all()) {
      if (now?.get(id) === undefined) {
        yield { key: overrideKey(rule, id), before: document, after: undefined }
      }
    }
  }
}

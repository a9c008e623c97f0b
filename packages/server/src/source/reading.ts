/** One reading of a store, on its way into the book and to the known keys. */
import type { Stored } from '../rule-store/records.js'
import type { Chunk } from '../rule-store/rule-store.js'
import type { Book, TakenNews } from './book.js'
import type { KeySink, StoredKey } from './key-sink.js'

export class Reading {
  readonly #book: Book
  readonly #keys: KeySink
  #isWhole = false
  #isUsed = false
  #count = 0
  /** Of changes: they are few. Those of everything go on as they come. */
  readonly #keyChanges: StoredKey[] = []

  constructor(book: Book, keys: KeySink) {
    this.#book = book
    this.#keys = keys
    // Of one that was not ended.
    book.abandon()
  }

  /** Whether nothing has changed. */
  get isEmpty(): boolean {
    return this.#count === 0 && !this.#isWhole
  }

  take(chunk: Chunk): TakenNews | undefined {
    if (chunk.isWhole) {
      this.#isWhole = true
      this.#keys.begin()
    }
    this.#count += chunk.records.length
    const keys = chunk.records.filter(isKey)
    if (this.#isWhole) this.#keys.put(keys)
    else this.#keyChanges.push(...keys)
    return this.#book.take(chunk)
  }

  /** Its keys are in use from now on. Once: what is asked for later changes nothing. */
  useKeys(): void {
    if (this.#isUsed) return
    this.#isUsed = true
    if (!this.#isWhole) this.#keys.put(this.#keyChanges)
    this.#keys.end(this.#book.keySecret)
  }

  drop(): void {
    this.#book.abandon()
    if (this.#isWhole && !this.#isUsed) this.#keys.abandon()
  }
}

function isKey(record: Stored): record is StoredKey {
  return record.kind === 'key'
}

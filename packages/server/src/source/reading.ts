/** One reading of a store, on its way into the book and to the known keys. */
import type { KeyDocument, Stored } from '../rule-store/records.js'
import type { Chunk } from '../rule-store/rule-store.js'
import type { Book, TakenNews } from './book.js'
import type { KeySink, StoredKey } from './key-sink.js'

export interface RefusedKey {
  readonly id: string
  readonly problem: string
}

const REFUSED_TOLD_MAX = 20
const HASH = /^[0-9a-f]{64}$/i

export class Reading {
  readonly #book: Book
  readonly #keys: KeySink
  #isWhole = false
  #isUsed = false
  #count = 0
  #refused: RefusedKey[] = []
  /** Of changes: they are few. Those of everything go on as they come. */
  readonly #keyChanges: StoredKey[] = []

  constructor(book: Book, keys: KeySink) {
    this.#book = book
    this.#keys = keys
    // Of one that was not ended.
    book.abandon()
  }

  /** Keys that cannot be used, which are unknown therefore: the first of them. */
  get refusedKeys(): readonly RefusedKey[] {
    return this.#refused
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
    const keys = chunk.records.filter(isKey).map((key) => this.sound(key))
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

  /** Somebody may have written into the store by hand: what is no key costs no other anything. */
  private sound(key: StoredKey): StoredKey {
    const problem = key.body === null ? undefined : problemOf(key.body)
    if (problem === undefined) return key
    if (this.#refused.length < REFUSED_TOLD_MAX) this.#refused.push({ id: key.id, problem })
    return { ...key, body: null }
  }

  drop(): void {
    this.#book.abandon()
    if (this.#isWhole && !this.#isUsed) this.#keys.abandon()
  }
}

function isKey(record: Stored): record is StoredKey {
  return record.kind === 'key'
}

/** What keeps a key from being used, for people; undefined: nothing. */
function problemOf({ hash, user, plan }: Readonly<Partial<Record<keyof KeyDocument, unknown>>>) {
  if (typeof hash !== 'string' || !HASH.test(hash)) {
    return 'hash: found no hash; accepted: 64 hex digits'
  }
  for (const [field, value] of Object.entries({ user, plan })) {
    if (value === undefined || typeof value === 'string') continue
    return `${field}: found ${value === null ? 'null' : typeof value}; accepted: a text, or none`
  }
  return undefined
}

/** One reading of a store, on its way into the book and to the known keys. */
import type { KeyDocument, StoredKey, StoredRecord } from '../store/records.js'
import type { RecordChunk } from '../store/rule-store.js'
import type { WritableCatalog, CatalogUpdate } from './rule-catalog.js'
import type { KeyReceiver } from './key-receiver.js'

export interface RefusedKey {
  readonly id: string
  readonly problem: string
}

const REFUSED_LOGGED_MAX = 20
const HASH = /^[0-9a-f]{64}$/i

export class SyncPass {
  readonly #catalog: WritableCatalog
  readonly #keys: KeyReceiver
  #isWhole = false
  #isUsed = false
  #count = 0
  #refused: RefusedKey[] = []
  /** Of changes: they are few. Those of everything go on as they come. */
  readonly #keyChanges: StoredKey[] = []

  constructor(catalog: WritableCatalog, keys: KeyReceiver) {
    this.#catalog = catalog
    this.#keys = keys
    // Of one that was not ended.
    catalog.discardChunks()
  }

  /** Keys that cannot be used, which are unknown therefore: the first of them. */
  get refusedKeys(): readonly RefusedKey[] {
    return this.#refused
  }

  /** Whether nothing has changed. */
  get isEmpty(): boolean {
    return this.#count === 0 && !this.#isWhole
  }

  addChunk(chunk: RecordChunk): CatalogUpdate | undefined {
    if (chunk.isWhole) {
      this.#isWhole = true
      this.#keys.begin()
    }
    this.#count += chunk.records.length
    const keys = chunk.records.filter(isKey).map((key) => this.withoutInvalidBody(key))
    if (this.#isWhole) this.#keys.receive(keys)
    else this.#keyChanges.push(...keys)
    return this.#catalog.addChunk(chunk)
  }

  /** Its keys are in use from now on. Once: what is asked for later changes nothing. */
  useKeys(): void {
    if (this.#isUsed) return
    this.#isUsed = true
    if (!this.#isWhole) this.#keys.receive(this.#keyChanges)
    this.#keys.end(this.#catalog.keySecret)
  }

  /** Somebody may have written into the store by hand: what is no key costs no other anything. */
  private withoutInvalidBody(key: StoredKey): StoredKey {
    const problem = key.body === null ? undefined : problemOf(key.body)
    if (problem === undefined) return key
    if (this.#refused.length < REFUSED_LOGGED_MAX) this.#refused.push({ id: key.id, problem })
    return { ...key, body: null }
  }

  discard(): void {
    this.#catalog.discardChunks()
    if (this.#isWhole && !this.#isUsed) this.#keys.abandon()
  }
}

function isKey(record: StoredRecord): record is StoredKey {
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

/** One read of a store: passes its chunks on to the catalog, and its keys to the key receiver. */
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
  /** Keys of a read of changes, which are few. Those of a whole read are passed on at once. */
  readonly #keyChanges: StoredKey[] = []

  constructor(catalog: WritableCatalog, keys: KeyReceiver) {
    this.#catalog = catalog
    this.#keys = keys
    // Chunks of an earlier read that was not completed.
    catalog.discardChunks()
  }

  /** The first keys with an invalid record; they count as unknown. */
  get refusedKeys(): readonly RefusedKey[] {
    return this.#refused
  }

  /** Whether the read brought no change. */
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

  /** Puts the keys of this read in use. Later calls have no effect. */
  useKeys(): void {
    if (this.#isUsed) return
    this.#isUsed = true
    if (!this.#isWhole) this.#keys.receive(this.#keyChanges)
    this.#keys.end(this.#catalog.keySecret)
  }

  /** The store may have been edited by hand: an invalid key does not affect the others. */
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

/** Describes why a key cannot be used; undefined: it can. */
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

/**
 * Known API keys: those of the configuration and those registered in the rule store. Both contain
 * hashes only, no keys.
 */
import { hash } from 'node:crypto'
import type { KnownKey } from '../../config/config.js'
import { KEY_ID_PREFIX, keyHash, keyId } from '../../rules/store/key-hash.js'
import type { KeyDocument } from '../../rules/store/records.js'
import type { StoredKey } from '../../rules/store/records.js'
import type { KeyReceiver } from '../../rules/sync/key-receiver.js'
import { type KeyIdentity, KeyTable } from './key-table.js'

/** Longer keys are refused without hashing. */
const KEY_LENGTH_MAX = 512

/** The keys of a rule store, as a node follows it. */
export class RegisteredKeys implements KeyReceiver {
  #index = new KeyIndex()
  /** The table of a full load in progress; calls use the other until it is complete. */
  #next: KeyIndex | undefined
  #secret: string | undefined

  get size(): number {
    return this.#index.table.size
  }

  /** Begins a full load: keys that do not come before `end` are removed. */
  begin(): void {
    this.#next = new KeyIndex()
  }

  receive(records: readonly StoredKey[]): void {
    const index = this.#next ?? this.#index
    for (const { id, body } of records) index.set(id, body)
  }

  end(secret: string | undefined): void {
    this.#secret = secret
    if (this.#next !== undefined) this.#index = this.#next
    this.#next = undefined
  }

  abandon(): void {
    this.#next = undefined
  }

  /** `sha256` of the key, in hex digits. */
  find(sha256: string): KeyIdentity | undefined {
    const { table } = this.#index
    if (this.#secret === undefined || table.size === 0) return undefined
    return table.find(keyHash(this.#secret, sha256))
  }
}

class KeyIndex {
  readonly table = new KeyTable()
  /**
   * The hash of each key whose id does not contain it, because it was written into the database by
   * hand. Needed to remove such a key.
   */
  readonly #hashes = new Map<string, string>()

  set(id: string, body: KeyDocument | null): void {
    const isUsual = body !== null && keyId(body.hash) === id
    if (!isUsual || this.#hashes.size > 0) {
      this.table.remove(this.#hashes.get(id) ?? id.slice(KEY_ID_PREFIX.length))
      this.#hashes.delete(id)
    }
    if (body === null) return
    if (!isUsual) this.#hashes.set(id, body.hash)
    this.table.set(body.hash, body)
  }
}

export class KnownKeys {
  readonly #byHash: ReadonlyMap<string, KeyIdentity>
  readonly #registered: RegisteredKeys | undefined

  constructor(keys: readonly KnownKey[], registered?: RegisteredKeys) {
    this.#byHash = new Map(
      keys.map((key) => [key.sha256.toLowerCase(), { ...key, maskedValue: undefined }]),
    )
    this.#registered = registered
  }

  /** Keys of the configuration override those of the rule store. */
  find(key: string): KeyIdentity | undefined {
    if (this.#byHash.size === 0 && (this.#registered?.size ?? 0) === 0) return undefined
    if (key.length > KEY_LENGTH_MAX) return undefined
    const sha256 = hash('sha256', key)
    return this.#byHash.get(sha256) ?? this.#registered?.find(sha256)
  }
}

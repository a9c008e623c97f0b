/**
 * API keys that are known: those of the configuration, and those registered in the rule store. Only
 * hashes of them are, so neither is a list of secrets.
 */
import { hash } from 'node:crypto'
import type { KnownKey } from '../config/config.js'
import { keyHash } from '../rule-store/key-hash.js'
import type { KeySink, StoredKey } from '../source/key-sink.js'
import { type FoundKey, KeyTable, PREFIX_DIGITS } from './key-table.js'

/** A longer key is unknown without the work of a hash. */
const KEY_LENGTH_MAX = 512

export const KEY_ID_PREFIX = 'k_'

/** The public name of a key: the beginning of its hash, by which it is found. */
export function keyId(hashOfKey: string): string {
  return KEY_ID_PREFIX + hashOfKey.slice(0, PREFIX_DIGITS)
}

/** The keys of a rule store, as a node follows it. */
export class RegisteredKeys implements KeySink {
  #table = new KeyTable()
  /** Being filled with everything, while calls still look into the other. */
  #next: KeyTable | undefined
  #secret: string | undefined

  get size(): number {
    return this.#table.size
  }

  /** What comes until `end` is everything; what is not in it is gone. */
  begin(): void {
    this.#next = new KeyTable()
  }

  put(records: readonly StoredKey[]): void {
    const table = this.#next ?? this.#table
    for (const { id, body } of records) {
      if (body === null) table.remove(id.slice(KEY_ID_PREFIX.length))
      else table.put(body.hash, body)
    }
  }

  end(secret: string | undefined): void {
    this.#secret = secret
    if (this.#next !== undefined) this.#table = this.#next
    this.#next = undefined
  }

  abandon(): void {
    this.#next = undefined
  }

  /** `sha256` of the key, in hex digits. */
  find(sha256: string): FoundKey | undefined {
    if (this.#secret === undefined || this.#table.size === 0) return undefined
    return this.#table.find(keyHash(this.#secret, sha256))
  }
}

export class KnownKeys {
  readonly #byHash: ReadonlyMap<string, FoundKey>
  readonly #registered: RegisteredKeys | undefined

  constructor(keys: readonly KnownKey[], registered?: RegisteredKeys) {
    this.#byHash = new Map(
      keys.map((key) => [key.sha256.toLowerCase(), { ...key, form: undefined }]),
    )
    this.#registered = registered
  }

  /** The configuration has the last word on its own keys. */
  find(key: string): FoundKey | undefined {
    if (this.#byHash.size === 0 && (this.#registered?.size ?? 0) === 0) return undefined
    if (key.length > KEY_LENGTH_MAX) return undefined
    const sha256 = hash('sha256', key)
    return this.#byHash.get(sha256) ?? this.#registered?.find(sha256)
  }
}

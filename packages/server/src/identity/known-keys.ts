/** API keys that are known. Only their hash is, so the configuration is not a list of secrets. */
import { hash } from 'node:crypto'
import type { KnownKey } from '../config/config.js'

/** A longer key is unknown without the work of a hash. */
const KEY_LENGTH_MAX = 512

/** A key as calls are told of it: `form` is made of it at its first use. */
interface FoundKey extends KnownKey {
  form: string | undefined
}

export class KnownKeys {
  readonly #byHash: ReadonlyMap<string, FoundKey>

  constructor(keys: readonly KnownKey[]) {
    this.#byHash = new Map(
      keys.map((key) => [key.sha256.toLowerCase(), { ...key, form: undefined }]),
    )
  }

  find(key: string): FoundKey | undefined {
    if (this.#byHash.size === 0 || key.length > KEY_LENGTH_MAX) return undefined
    return this.#byHash.get(hash('sha256', key))
  }
}

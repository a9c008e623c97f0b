/** API keys that are known. Only their hash is, so the configuration is not a list of secrets. */
import { hash } from 'node:crypto'
import type { KnownKey } from '../config/config.js'

/** A longer key is unknown without the work of a hash. */
const KEY_LENGTH_MAX = 512

export class KnownKeys {
  readonly #byHash: ReadonlyMap<string, KnownKey>

  constructor(keys: readonly KnownKey[]) {
    this.#byHash = new Map(keys.map((key) => [key.sha256.toLowerCase(), key]))
  }

  find(key: string): KnownKey | undefined {
    if (this.#byHash.size === 0 || key.length > KEY_LENGTH_MAX) return undefined
    return this.#byHash.get(hash('sha256', key))
  }
}

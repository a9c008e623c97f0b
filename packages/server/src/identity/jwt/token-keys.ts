/**
 * Finds the keys that tokens are verified with: those in files, then those that the issuer
 * publishes.
 */
import { show } from '@sluice/core'
import type { WallClock } from '../../lib/wall-clock.js'
import type { JwtConfig, JwtKeyFile } from '../../config/config.js'
import { lacksKey, type TokenKey } from './jwk.js'
import { Jwks } from './jwks.js'
import { readKeyFile } from './key-file.js'

export interface TokenKeysOptions {
  readonly config: Pick<JwtConfig, 'keys' | 'jwks'>
  readonly clock: WallClock
  readonly warn: (message: string) => void
  /** How long a fetch may take. */
  readonly timeoutMs?: number | undefined
}

/** Rejects if a file contains no key of its algorithm. Does not wait for published keys. */
export async function openTokenKeys(options: TokenKeysOptions): Promise<TokenKeys> {
  return new TokenKeys(options, await readFiles(options.config.keys))
}

export class TokenKeys {
  readonly #files: readonly JwtKeyFile[]
  readonly #jwks: Jwks | undefined
  #fromFiles: readonly TokenKey[]
  #reloads = 0

  constructor({ config, clock, warn, timeoutMs }: TokenKeysOptions, keys: readonly TokenKey[]) {
    this.#files = config.keys
    this.#fromFiles = keys
    this.#jwks =
      config.jwks === undefined ? undefined : new Jwks({ ...config.jwks, clock, warn, timeoutMs })
  }

  /** Changes when a key is removed: tokens verified with it may no longer be valid. */
  get generation(): number {
    return this.#reloads + (this.#jwks?.generation ?? 0)
  }

  /**
   * The key that a token names. One that names none gets the key of a file without a name, or the
   * only key there is. `stale`: it may be a key that could not be fetched. The algorithm is the
   * token's claim, and only distinguishes published keys that share a name.
   */
  find(
    kid: string | undefined,
    algorithm: string,
  ): TokenKey | undefined | Promise<TokenKey | 'stale' | undefined> {
    const known = this.pick(kid, algorithm)
    return known !== undefined ? known : this.#jwks?.find(() => this.pick(kid, algorithm))
  }

  /** Fetches old published keys again in the background. */
  refresh(nowMs: number): void {
    this.#jwks?.refresh(nowMs)
  }

  /** Reads the files again; rejects and keeps the active keys if one is invalid. */
  async reload(): Promise<void> {
    const keys = await readFiles(this.#files)
    if (lacksKey(this.#fromFiles, keys)) this.#reloads++
    this.#fromFiles = keys
  }

  stats() {
    return this.#jwks?.stats()
  }

  async close(): Promise<void> {
    await this.#jwks?.close()
  }

  private pick(kid: string | undefined, algorithm: string): TokenKey | undefined {
    const published = this.#jwks?.keys ?? NO_KEYS
    const isNamed = (key: TokenKey): boolean => key.kid === kid
    if (kid !== undefined) {
      const named = this.#fromFiles.find(isNamed)
      // A key of another algorithm is found as well: the token is then invalid, and causes no
      // fetch.
      return named ?? published.find(isNamedFor(kid, algorithm)) ?? published.find(isNamed)
    }
    const unnamed = this.#fromFiles.find(isNamed)
    // Which key is the only one is unknown before those of the issuer are fetched.
    const isComplete = this.#jwks === undefined || published.length > 0
    if (unnamed !== undefined || !isComplete) return unnamed
    return this.#fromFiles.length + published.length === 1
      ? (this.#fromFiles[0] ?? published[0])
      : undefined
  }
}

function isNamedFor(kid: string, algorithm: string): (key: TokenKey) => boolean {
  return (key) => key.kid === kid && key.algorithm === algorithm
}

const NO_KEYS: readonly TokenKey[] = []

async function readFiles(files: readonly JwtKeyFile[]): Promise<readonly TokenKey[]> {
  const keys = await Promise.all(files.map(readKeyFile))
  const names = new Set<string | undefined>()
  for (const { kid } of keys) {
    if (names.has(kid)) {
      const found = kid === undefined ? 'two keys without kid' : `two keys of kid ${show(kid)}`
      throw new Error(`identity.jwt.keys: found ${found}; accepted: each kid once`)
    }
    names.add(kid)
  }
  return keys
}

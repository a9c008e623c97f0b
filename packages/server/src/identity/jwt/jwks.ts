/**
 * Fetches the keys that the issuer of tokens publishes at a URL: when a token first needs them,
 * again when one names an unknown key, and again when the keys are old; never more often than every
 * ten seconds, whatever tokens arrive. If a fetch fails, the last good keys stay.
 */
import { show } from '@sluice/core'
import type { JWK } from 'jose'
import { Agent, request } from 'undici'
import type { WallClock } from '../../lib/wall-clock.js'
import type { JwtAlgorithm } from '../../config/config.js'
import { guardedLookup } from '../../lib/guarded-lookup.js'
import { withTimeLimit } from '../../lib/time-limit.js'
import { algorithmOf, findJwkProblem, importPublicJwk, lacksKey, type TokenKey } from './jwk.js'

export interface JwksOptions {
  readonly url: string
  readonly algorithms: readonly JwtAlgorithm[]
  readonly clock: WallClock
  /** Called for each failed fetch, at most every ten seconds. */
  readonly warn: (message: string) => void
  /** @default 5000 */
  readonly timeoutMs?: number | undefined
}

const FETCH_EVERY_MS = 10_000
const TIMEOUT_MS = 5000
const BYTES_MAX = 256 * 1024
const KEYS_MAX = 100
/** The age at which keys are fetched again, to remove withdrawn ones; the old ones stay in use. */
const OLD_MS = 600_000

export class Jwks {
  readonly #options: JwksOptions
  readonly #closing = new AbortController()
  /** A connection of its own, so that it can be closed. */
  #agent: Agent | undefined
  #keys: readonly TokenKey[] = []
  #fetching: Promise<void> | undefined
  #fetchStartedAtMs: number | undefined
  #fetchedAtMs: number | undefined
  #isStale = true
  #fetches = 0
  #failures = 0
  #generation = 0

  constructor(options: JwksOptions) {
    this.#options = options
  }

  get keys(): readonly TokenKey[] {
    return this.#keys
  }

  /** Changes whenever a key is removed. */
  get generation(): number {
    return this.#generation
  }

  stats() {
    const fetchedAtMs = this.#fetchedAtMs
    const ageMs = fetchedAtMs === undefined ? undefined : this.#options.clock.now() - fetchedAtMs
    return { fetches: this.#fetches, failures: this.#failures, keys: this.#keys.length, ageMs }
  }

  /**
   * The result of `pick`, after a fetch if necessary; `stale` if it finds nothing and the keys may
   * be outdated, because the last fetch failed.
   */
  async find(pick: () => TokenKey | undefined): Promise<TokenKey | 'stale' | undefined> {
    await this.fetch()
    return pick() ?? (this.#isStale ? 'stale' : undefined)
  }

  /** Fetches old keys again in the background. */
  refresh(nowMs: number): void {
    const fetchedAtMs = this.#fetchedAtMs
    if (fetchedAtMs === undefined || nowMs - fetchedAtMs < OLD_MS) return
    void this.fetch()
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#fetching
    await this.#agent?.destroy()
  }

  /** Resolves when the running fetch ends; at once if none is allowed yet. Never rejects. */
  private fetch(): Promise<void> {
    if (this.#fetching !== undefined) return this.#fetching
    const nowMs = this.#options.clock.now()
    const sinceMs =
      this.#fetchStartedAtMs === undefined ? FETCH_EVERY_MS : nowMs - this.#fetchStartedAtMs
    // A clock that stepped back must not prevent fetches until it has caught up.
    const isAllowed = (sinceMs >= FETCH_EVERY_MS || sinceMs < 0) && !this.#closing.signal.aborted
    if (!isAllowed) return Promise.resolve()
    this.#fetchStartedAtMs = nowMs
    this.#fetches++
    this.#fetching = this.load().finally(() => {
      this.#fetching = undefined
    })
    return this.#fetching
  }

  private async load(): Promise<void> {
    const { url, algorithms, clock, warn } = this.#options
    try {
      const keys = await readKeySet(await this.download(), algorithms)
      if (lacksKey(this.#keys, keys)) this.#generation++
      this.#keys = keys
      this.#fetchedAtMs = clock.now()
      this.#isStale = false
    } catch (error) {
      this.#isStale = true
      this.#failures++
      if (this.#closing.signal.aborted) return
      warn(`identity.jwt.jwks: ${placeOf(url)}: ${describe(error)}; the last good keys stay`)
    }
  }

  private async download(): Promise<string> {
    const { timeoutMs = TIMEOUT_MS } = this.#options
    return withTimeLimit({ timeoutMs, parent: this.#closing.signal }, (signal) =>
      this.downloadOnce(timeoutMs, signal),
    )
  }

  /** Does not follow redirects: only the configuration decides where keys come from. */
  private async downloadOnce(timeoutMs: number, signal: AbortSignal): Promise<string> {
    this.#agent ??= new Agent({
      connections: 1,
      connect: { timeout: timeoutMs, lookup: guardedLookup },
    })
    const { statusCode, body } = await request(this.#options.url, {
      dispatcher: this.#agent,
      headers: { accept: 'application/json' },
      signal,
    })
    const pieces: Buffer[] = []
    let size = 0
    // Leaving the loop early destroys the body, and with it the connection.
    for await (const piece of body as AsyncIterable<Buffer>) {
      size += piece.length
      if (size > BYTES_MAX) throw new Error(`found more than ${BYTES_MAX} bytes`)
      pieces.push(piece)
    }
    if (statusCode !== 200) throw new Error(`found status ${statusCode}; accepted: 200`)
    return Buffer.concat(pieces).toString('utf8')
  }
}

/** Without user, password and query, which must not be logged. */
function placeOf(url: string): string {
  const { origin, pathname } = new URL(url)
  return show(origin + pathname, 200)
}

/** Some socket errors have no message, only a code. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return show(error, 200)
  const code: unknown = Reflect.get(error, 'code')
  return show(error.message || code || error.name, 200)
}

/** Ignores keys that cannot be used; fails if no other is left. */
async function readKeySet(
  text: string,
  algorithms: readonly JwtAlgorithm[],
): Promise<readonly TokenKey[]> {
  const set: unknown = JSON.parse(text)
  const list = isObject(set) && Array.isArray(set.keys) ? set.keys.slice(0, KEYS_MAX) : []
  const keys = await Promise.all(list.map((jwk: unknown) => readKey(jwk, algorithms)))
  const usable = keys.filter((key) => key !== undefined)
  if (usable.length > 0) return usable
  throw new Error(`found no public key for ${algorithms.join(', ')}`)
}

async function readKey(
  jwk: unknown,
  algorithms: readonly JwtAlgorithm[],
): Promise<TokenKey | undefined> {
  if (!isObject(jwk)) return undefined
  const published: JWK = jwk
  const algorithm = algorithmOf(published, algorithms)
  if (algorithm === undefined || findJwkProblem(published) !== undefined) return undefined
  try {
    return await importPublicJwk(published, algorithm)
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

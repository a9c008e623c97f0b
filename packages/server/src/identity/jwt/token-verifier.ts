/**
 * Verifies tokens (JWT). A signature costs more than a whole proxied call, so a flood of invalid
 * tokens would be an attack in front of the limiter. Results are cached, each token is verified
 * once at a time, and addresses that send invalid tokens are rate limited.
 */
import { hash } from 'node:crypto'
import { createLimiter, type Limiter, memoryStore } from '@sluice/limiter'
import { decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from 'jose'
import type { WallClock } from '../../lib/wall-clock.js'
import type { JwtConfig } from '../../config/config.js'
import type { TokenKey } from './jwk.js'
import { BoundedWait } from './bounded-wait.js'
import { openTokenKeys, type TokenKeys } from './token-keys.js'
import { TokenCache } from './token-cache.js'
import { Semaphore } from '../../lib/semaphore.js'

export type TokenProblem =
  | 'invalid_token'
  | 'expired_token'
  /** The address sent too many invalid tokens; this one was not verified. */
  | 'token_failures'
  /** Not verified: its key could not be fetched in time, or too many tokens wait. */
  | 'unverified_token'

export interface TokenUser {
  readonly user: string
  readonly plan: string | undefined
}

export interface TokenVerifier {
  /**
   * Returns at once for a cached token; otherwise after its signature was verified. If that takes
   * longer than `withinMs`, the verdict is `unverified_token`, and later calls get the result. A
   * call waits at most twice as long, if another address sent the token and was limited. @default
   * 1000
   */
  verify(
    token: string,
    ip: string,
    withinMs?: number,
  ): TokenUser | TokenProblem | Promise<TokenUser | TokenProblem>
  /** Reads key files again; rejects and keeps the active keys if one is invalid. */
  reload(): Promise<void>
  stats(): TokenStats
  close(): Promise<void>
}

export interface TokenStats {
  /** Signatures verified, valid or not. */
  readonly verified: number
  /** Results from the cache. */
  readonly remembered: number
  readonly published:
    | {
        readonly fetches: number
        readonly failures: number
        readonly keys: number
        /** Since the last good fetch; undefined before it. */
        readonly ageMs: number | undefined
      }
    | undefined
}

export interface TokenVerifierOptions {
  readonly config: JwtConfig
  readonly ipv6Prefix: number
  readonly clock: WallClock
  /** Called when published keys cannot be fetched. */
  readonly warn?: ((message: string) => void) | undefined
  /** How long a fetch of published keys may take. @default 5000 */
  readonly fetchTimeoutMs?: number | undefined
}

export const TOKEN_LENGTH_MAX = 8192
const CLAIM_LENGTH_MAX = 1024
const LEEWAY_S = 30
/**
 * How long a call waits for its token. Any caller can name a key that has to be fetched, which may
 * take far longer; a healthy issuer answers in less.
 */
const WITHIN_MS = 1000
/** Tokens that wait for their turn. */
const WAITING_MAX = 1000
/** Tokens that wait for keys; counted apart, since invalid ones wait too. */
const KEYLESS_MAX = 1000
/** Node verifies in four threads; more jobs would queue there and delay file access. */
const CONCURRENT_VERIFICATIONS_MAX = 4
const FAILING_ADDRESSES_MAX = 100_000
export const FAILURES_BURST = 20
export const FAILURES_PER_SECOND = 5

/** Rejects if a key file is invalid. */
export async function createTokenVerifier(options: TokenVerifierOptions): Promise<TokenVerifier> {
  const { config, clock, warn = () => {}, fetchTimeoutMs } = options
  const keys = await openTokenKeys({ config, clock, warn, timeoutMs: fetchTimeoutMs })
  return new JwtVerifier(options, keys)
}

type Verdict = TokenUser | TokenProblem

/** A call with a token. */
interface PresentedToken {
  readonly token: string
  readonly ip: string
  readonly withinMs: number
}

/** A token that is being verified. It continues without waiters, so their number is bounded. */
interface Verification {
  /** The address that sent it first, which is charged if it is invalid. */
  readonly ip: string
  readonly wait: BoundedWait<Verdict>
}

class JwtVerifier implements TokenVerifier {
  readonly #config: JwtConfig
  readonly #clock: WallClock
  readonly #keys: TokenKeys
  readonly #failures: Limiter
  readonly #cache = new TokenCache<TokenUser, TokenProblem>()
  readonly #running = new Map<string, Verification>()
  readonly #semaphore = new Semaphore(CONCURRENT_VERIFICATIONS_MAX)
  #generation = 0
  #verified = 0
  #remembered = 0
  #waitingForKey = 0
  #closed = false

  constructor({ config, clock, ipv6Prefix }: TokenVerifierOptions, keys: TokenKeys) {
    this.#config = config
    this.#clock = clock
    this.#keys = keys
    this.#failures = limitFailures(clock, ipv6Prefix)
  }

  verify(token: string, ip: string, withinMs = WITHIN_MS): Verdict | Promise<Verdict> {
    return token.length > TOKEN_LENGTH_MAX
      ? 'invalid_token'
      : this.verifyOrJoin({ token, ip, withinMs }, false)
  }

  reload(): Promise<void> {
    return this.#keys.reload()
  }

  stats(): TokenStats {
    return {
      verified: this.#verified,
      remembered: this.#remembered,
      published: this.#keys.stats(),
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#keys.close()
    await Promise.allSettled(Array.from(this.#running.values(), ({ wait }) => wait.done))
    await this.#failures.close()
  }

  private verifyOrJoin(presented: PresentedToken, hasWaited: boolean): Verdict | Promise<Verdict> {
    const nowMs = this.#clock.now()
    this.#keys.refresh(nowMs)
    this.clearCacheIfKeysChanged()
    const id = hash('sha256', presented.token, 'base64')
    const known = this.#cache.find(id, nowMs)
    if (known !== undefined) {
      this.#remembered++
      return known
    }
    const verification = this.#running.get(id)
    return verification === undefined
      ? this.start(presented, id)
      : this.join(presented, verification, hasWaited)
  }

  /** The first sender may have been limited; that result does not apply to another address. */
  private async join(
    presented: PresentedToken,
    verification: Verification,
    hasWaited: boolean,
  ): Promise<Verdict> {
    const verdict = await verification.wait.within(presented.withinMs)
    if (verdict !== 'token_failures' || verification.ip === presented.ip) return verdict
    // Any number of them could follow each other, and each would be another wait.
    return hasWaited ? 'unverified_token' : this.verifyOrJoin(presented, true)
  }

  private start({ token, ip, withinMs }: PresentedToken, id: string): Verdict | Promise<Verdict> {
    const header = readHeader(token)
    if (header === undefined) return 'invalid_token'
    const key = this.#keys.find(header.kid, header.algorithm)
    const isFull =
      key instanceof Promise
        ? this.#waitingForKey >= KEYLESS_MAX
        : this.#semaphore.waiting >= WAITING_MAX
    if (isFull || this.#closed) return 'unverified_token'
    const verdict = this.judge({ token, id, ip, ...header }, key).finally(() =>
      this.#running.delete(id),
    )
    const wait = new BoundedWait<Verdict>(verdict, 'unverified_token')
    this.#running.set(id, { ip, wait })
    return wait.within(withinMs)
  }

  private async judge(
    pending: PendingToken,
    named: ReturnType<TokenKeys['find']>,
  ): Promise<Verdict> {
    const key = named instanceof Promise ? await this.awaitKey(named) : named
    if (key === 'stale') return 'unverified_token'
    // The algorithm in the token can only cause a refusal.
    if (key === undefined || key.algorithm !== pending.algorithm) return 'invalid_token'
    return this.#semaphore.run(() => this.verifyMetered(pending, key))
  }

  private async awaitKey<Key>(key: Promise<Key>): Promise<Key> {
    this.#waitingForKey++
    try {
      return await key
    } finally {
      this.#waitingForKey--
    }
  }

  /** Charges a failure in advance and refunds it on success, so that parallel attempts count. */
  private async verifyMetered(pending: PendingToken, key: TokenKey): Promise<Verdict> {
    const { allowed, receipt } = this.#failures.checkSync(
      { attributes: { ip: pending.ip } },
      { receipt: true },
    )
    if (!allowed) return 'token_failures'
    const generation = this.#keys.generation
    this.#verified++
    const found = await verifyToken(pending.token, key, this.#config, this.#clock.now())
    const isCurrent = generation === this.#keys.generation
    if (typeof found.verdict !== 'string') {
      if (isCurrent) this.#cache.addGood(pending.id, found.verdict, found.untilMs)
      if (receipt !== undefined) await this.#failures.refund(receipt)
    } else if (isCurrent && found.isFinal) {
      this.#cache.addBad(pending.id, found.verdict, this.#clock.now())
    }
    return found.verdict
  }

  private clearCacheIfKeysChanged(): void {
    if (this.#generation === this.#keys.generation) return
    this.#generation = this.#keys.generation
    this.#cache.clear()
  }
}

interface PendingToken {
  readonly token: string
  readonly id: string
  readonly ip: string
  readonly kid: string | undefined
  readonly algorithm: string
}

function limitFailures(clock: WallClock, ipv6Prefix: number): Limiter {
  const inMicroseconds = { now: () => Math.floor(clock.now() * 1000) }
  const limit = { max: FAILURES_PER_SECOND, window: '1s', burst: FAILURES_BURST } as const
  return createLimiter({
    rules: [
      { id: 'token-failures', by: ['ip'], limits: [{ algorithm: 'token-bucket', ...limit }] },
    ],
    store: memoryStore({ maxCounters: FAILING_ADDRESSES_MAX, clock: inMicroseconds }),
    clock: inMicroseconds,
    ipv6Prefix,
  })
}

/** The unverified header of a token; undefined if it is not a JWS. */
function readHeader(
  token: string,
): { readonly kid: string | undefined; readonly algorithm: string } | undefined {
  try {
    const { alg, kid } = decodeProtectedHeader(token)
    if (typeof alg !== 'string' || (kid !== undefined && typeof kid !== 'string')) return undefined
    return { kid, algorithm: alg }
  } catch {
    return undefined
  }
}

type VerificationResult =
  | { readonly verdict: TokenUser; readonly untilMs: number }
  /** Not final: a token that is not valid yet may be later. */
  | { readonly verdict: TokenProblem; readonly isFinal: boolean }

async function verifyToken(
  token: string,
  { key, algorithm }: TokenKey,
  config: JwtConfig,
  nowMs: number,
): Promise<VerificationResult> {
  const { issuer, audience, userClaim, planClaim } = config
  try {
    const { payload } = await jwtVerify(token, key, {
      algorithms: [algorithm],
      requiredClaims: ['exp'],
      clockTolerance: LEEWAY_S,
      currentDate: new Date(nowMs),
      ...(issuer !== undefined && { issuer }),
      ...(audience !== undefined && { audience }),
    })
    const user = readClaim(payload, userClaim)
    if (user === undefined) return INVALID
    const untilMs = ((payload.exp ?? 0) + LEEWAY_S) * 1000
    return { verdict: { user, plan: readClaim(payload, planClaim) }, untilMs }
  } catch (error) {
    if (error instanceof errors.JWTExpired) return EXPIRED
    const isEarly = error instanceof errors.JWTClaimValidationFailed && error.claim === 'nbf'
    return isEarly ? EARLY : INVALID
  }
}

const INVALID: VerificationResult = { verdict: 'invalid_token', isFinal: true }
const EXPIRED: VerificationResult = { verdict: 'expired_token', isFinal: true }
const EARLY: VerificationResult = { verdict: 'invalid_token', isFinal: false }

/** A claim as the text of an attribute; undefined if it cannot be one. */
function readClaim(payload: JWTPayload, name: string): string | undefined {
  const value = Object.hasOwn(payload, name) ? payload[name] : undefined
  if (typeof value === 'number') return Number.isSafeInteger(value) ? String(value) : undefined
  if (typeof value !== 'string' || value === '') return undefined
  return value.length <= CLAIM_LENGTH_MAX ? value : undefined
}

/**
 * A class shaped like `Ratelimit` of @upstash/ratelimit 2, over the algorithms of Sluice and any of
 * its stores: code that uses the one runs with the other after a change of its import.
 */
import { type Decision, show, SluiceError } from '@sluice/core'
import { type Clock, systemClock } from '../clock.js'
import { createLimiter } from '../limiter.js'
import type { Limiter } from '../limiter-types.js'
import type { Store } from '../store.js'
import { invalidOption, requireNames } from './drop-in-options.js'

/** Such as `10 s`, `10s`, `1 m`, `500 ms`; the units are ms, s, m, h, d and w. */
export type Duration = `${number} ${Unit}` | `${number}${Unit}`
type Unit = keyof typeof UNITS_MS

/** How requests are limited; made by the static methods of `Ratelimit`. */
export interface RatelimitAlgorithm {
  readonly algorithm: 'fixed-window' | 'sliding-window-counter' | 'token-bucket'
  readonly max: number
  readonly windowMs: number
  readonly burst?: number | undefined
  /** `leased` decides most requests without a round trip. */
  readonly coordination: 'exact' | 'leased'
}

/** Options of `Ratelimit`. */
export interface RatelimitConfig {
  readonly limiter: RatelimitAlgorithm
  /** Where counters live. @default a memory store */
  readonly store?: Store | undefined
  /** Separates these counters from others in the same store. @default '@upstash/ratelimit' */
  readonly prefix?: string | undefined
  /** Milliseconds to wait for the store before `posture` decides. @default the store's deadline */
  readonly timeout?: number | undefined
  /**
   * What happens then: `local` decides with a share of the limit in this process, `open` admits as
   * the original does, `closed` refuses. @default 'local'
   */
  readonly posture?: 'local' | 'open' | 'closed' | undefined
  /** For tests: the wall clock, and that of the default store. @default the system's */
  readonly clock?: Clock | undefined
}

export interface RatelimitResponse {
  readonly success: boolean
  readonly limit: number
  readonly remaining: number
  /** Milliseconds since 1970 when nothing is used any more; for a refusal, when to try again. */
  readonly reset: number
  /** Resolved: nothing is left to do after the answer. */
  readonly pending: Promise<unknown>
  /** `timeout`: the store did not answer. `cacheBlock`: refused without asking the store. */
  readonly reason?: 'timeout' | 'cacheBlock'
}

export interface LimitRequest {
  /** How many tokens the request takes; a negative number gives back. @default 1 */
  readonly rate?: number | undefined
}

const RULE = 'upstash-ratelimit'
const NAMES = ['limiter', 'store', 'prefix', 'timeout', 'posture', 'clock']
const UNITS_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const
const DURATION = /^(\d+(?:\.\d+)?) ?(ms|s|m|h|d|w)$/

/**
 * Limits requests by an identifier.
 *
 * @example
 * const ratelimit = new Ratelimit({
 *   store: redisStore({ url: 'redis://127.0.0.1:6379' }),
 *   limiter: Ratelimit.slidingWindow(10, '10 s'),
 * })
 * const { success, reset } = await ratelimit.limit('user-1')
 */
export class Ratelimit {
  readonly #limiter: Limiter
  readonly #prefix: string
  readonly #clock: Clock

  constructor(config: RatelimitConfig) {
    const { limiter, store, prefix = '@upstash/ratelimit', clock = systemClock } = config ?? {}
    requireNames(config ?? {}, NAMES)
    if (typeof limiter !== 'object' || limiter === null) {
      throw invalidOption('limiter', show(limiter), 'such as Ratelimit.slidingWindow(10, "10 s")')
    }
    this.#prefix = prefix
    this.#clock = clock
    this.#limiter = createLimiter({ rules: [ruleOf(config)], store, clock })
  }

  /** `tokens` per window; windows begin at multiples of their length since 1970. */
  static fixedWindow(tokens: number, window: Duration): RatelimitAlgorithm {
    return {
      algorithm: 'fixed-window',
      max: tokens,
      windowMs: parseWindow(window),
      coordination: 'exact',
    }
  }

  /** `tokens` in a window that moves with time, estimated from two counts. */
  static slidingWindow(tokens: number, window: Duration): RatelimitAlgorithm {
    const windowMs = parseWindow(window)
    return { algorithm: 'sliding-window-counter', max: tokens, windowMs, coordination: 'exact' }
  }

  /** A bucket of `maxTokens`, refilled evenly with `refillRate` tokens per interval. */
  static tokenBucket(
    refillRate: number,
    interval: Duration,
    maxTokens: number,
  ): RatelimitAlgorithm {
    return {
      algorithm: 'token-bucket',
      max: refillRate,
      windowMs: parseWindow(interval),
      burst: maxTokens,
      coordination: 'exact',
    }
  }

  /** A fixed window of which a node draws tokens ahead: most requests need no round trip. */
  static cachedFixedWindow(tokens: number, window: Duration): RatelimitAlgorithm {
    return { ...Ratelimit.fixedWindow(tokens, window), coordination: 'leased' }
  }

  limit = async (
    identifier: string,
    { rate = 1 }: LimitRequest = {},
  ): Promise<RatelimitResponse> => {
    if (rate < 0) {
      await this.#limiter.refund({ ...this.callOf(identifier), cost: -rate })
      return this.respond(await this.#limiter.peek({ ...this.callOf(identifier), cost: 0 }))
    }
    return this.respond(await this.#limiter.check({ ...this.callOf(identifier), cost: rate }))
  }

  /**
   * Waits until a request passes, for at most `timeout` milliseconds; then answers with the last
   * refusal.
   */
  blockUntilReady = async (identifier: string, timeout: number): Promise<RatelimitResponse> => {
    if (!(timeout > 0)) throw invalidOption('timeout', show(timeout), 'milliseconds above 0')
    const end = this.nowMs() + timeout
    for (;;) {
      const decision = await this.#limiter.check(this.callOf(identifier))
      const waitMs = decision.retryAfterMs
      const leftMs = end - this.nowMs()
      if (decision.allowed || waitMs === null || leftMs <= 0) return this.respond(decision)
      await pause(Math.min(waitMs, leftMs))
      if (waitMs > leftMs) return this.respond(decision)
    }
  }

  getRemaining = async (
    identifier: string,
  ): Promise<{ remaining: number; reset: number; limit: number }> => {
    const { remaining, reset, limit } = this.respond(
      await this.#limiter.peek({ ...this.callOf(identifier), cost: 0 }),
    )
    return { remaining, reset, limit }
  }

  resetUsedTokens = async (identifier: string): Promise<void> => {
    await this.#limiter.reset(this.callOf(identifier))
  }

  /** Resolves when the store has started; requests are decided by `posture` before. */
  ready(): Promise<void> {
    return this.#limiter.ready()
  }

  /** Closes the store. */
  close(): Promise<void> {
    return this.#limiter.close()
  }

  private callOf(identifier: string) {
    if (typeof identifier !== 'string' || identifier === '') {
      throw new SluiceError(
        'CALL_INVALID',
        `identifier: found ${show(identifier)}; accepted: a text that is not empty`,
      )
    }
    return { attributes: { identifier: `${this.#prefix}:${identifier}` } }
  }

  private respond(decision: Decision): RatelimitResponse {
    const { allowed, limit, remaining, resetAfterMs, retryAfterMs, source } = decision
    const waitMs = allowed ? resetAfterMs : (retryAfterMs ?? resetAfterMs)
    const reason =
      source === 'posture' ? 'timeout' : source === 'deny-cache' ? 'cacheBlock' : undefined
    return {
      success: allowed,
      limit: limit ?? 0,
      remaining: remaining ?? 0,
      reset: this.nowMs() + (waitMs ?? 0),
      pending: Promise.resolve(),
      ...(reason === undefined ? {} : { reason }),
    }
  }

  private nowMs(): number {
    return Math.floor(this.#clock.now() / 1000)
  }
}

function ruleOf({ limiter, timeout, posture = 'local' }: RatelimitConfig): object {
  const { algorithm, max, windowMs, burst, coordination } = limiter
  const limit = { algorithm, max, window: `${windowMs}ms`, name: 'tokens' }
  return {
    id: RULE,
    by: ['identifier'],
    limits: [burst === undefined ? limit : { ...limit, burst }],
    coordination,
    posture,
    ...(timeout === undefined ? {} : { deadline: `${timeout}ms` }),
  }
}

function parseWindow(text: string): number {
  const [, count, unit] = DURATION.exec(String(text)) ?? []
  const ms = Number(count) * (UNITS_MS[unit as Unit] ?? Number.NaN)
  if (Number.isSafeInteger(ms) && ms > 0) return ms
  throw invalidOption('window', show(text), 'a number and ms, s, m, h, d or w, such as "10 s"')
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/**
 * A class shaped like `Ratelimit` of @upstash/ratelimit 2, over the algorithms of Sluice and any of
 * its stores: code that uses the one runs with the other after a change of its import.
 */
import { type Decision, show, SluiceError } from '@sluice/core'
import { type Clock, systemClock } from '../clock.js'
import { createLimiter } from '../limiter.js'
import { readStore } from '../limiter-options.js'
import type { Limiter } from '../limiter-types.js'
import { memoryStore } from '../memory/memory-store.js'
import { DEFAULT_DEADLINE_MS, type Store } from '../store.js'
import { isConfirmedWithin } from './confirmation.js'
import {
  type DropInLogger,
  invalidOption,
  readLogger,
  readPrefix,
  requireNames,
} from './drop-in-options.js'
import { acquireStore, releasable } from './store-users.js'

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
  /** Where counters live; closed with the last limiter that uses it. @default a memory store */
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
  /** Receives one line when the store falls silent, and one when it answers. @default none */
  readonly logger?: DropInLogger | undefined
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
const NAMES = ['limiter', 'store', 'prefix', 'timeout', 'posture', 'logger', 'clock']
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
  readonly #logger: DropInLogger | undefined
  readonly #deadlineMs: number
  #isSilent = false

  constructor(config: RatelimitConfig) {
    const { limiter, prefix = '@upstash/ratelimit', clock = systemClock } = config ?? {}
    requireNames(config ?? {}, NAMES)
    if (typeof limiter !== 'object' || limiter === null) {
      throw invalidOption('limiter', show(limiter), 'such as Ratelimit.slidingWindow(10, "10 s")')
    }
    this.#prefix = readPrefix(prefix)
    this.#clock = clock
    this.#logger = readLogger(config.logger)
    const store = readStore(config.store === undefined ? memoryStore({ clock }) : config.store)
    this.#deadlineMs = config.timeout ?? store.remote?.deadlineMs ?? DEFAULT_DEADLINE_MS
    this.#limiter = createLimiter({ rules: [ruleOf(config)], store: releasable(store), clock })
    acquireStore(store)
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
    if (rate < 0) return this.giveBack(identifier, -rate)
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
      await this.#limiter.peek(this.readOf(identifier)),
    )
    return { remaining, reset, limit }
  }

  resetUsedTokens = async (identifier: string): Promise<void> => {
    await this.confirm(this.#limiter.reset(this.callOf(identifier)))
  }

  /** Resolves when the store has started; requests are decided by `posture` before. */
  ready(): Promise<void> {
    return this.#limiter.ready()
  }

  /** Closes the store, unless another limiter uses it. */
  close(): Promise<void> {
    return this.#limiter.close()
  }

  private async giveBack(identifier: string, amount: number): Promise<RatelimitResponse> {
    const refund = this.#limiter.refund({ ...this.callOf(identifier), cost: amount })
    // Both wait for a silent store at the same time, so that the answer is within the deadline.
    const [isConfirmed, before] = await Promise.all([
      this.confirm(refund),
      this.#limiter.peek(this.readOf(identifier)),
    ])
    return this.respond(isConfirmed ? await this.#limiter.peek(this.readOf(identifier)) : before)
  }

  /** Waits for a change until the deadline; one that the store does not confirm is not repeated. */
  private async confirm(changed: Promise<void>): Promise<boolean> {
    const isConfirmed = await isConfirmedWithin(this.#deadlineMs, changed)
    if (isConfirmed) this.onAnswer()
    else this.onSilence()
    return isConfirmed
  }

  private readOf(identifier: string) {
    return { ...this.callOf(identifier), cost: 0 }
  }

  private callOf(identifier: string) {
    if (typeof identifier !== 'string' || identifier === '') {
      throw new SluiceError(
        'CALL_INVALID',
        `identifier: found ${show(identifier)}; accepted: a text that is not empty`,
      )
    }
    // An attribute is never empty, but a prefix may be.
    return { attributes: { prefix: `${this.#prefix}:`, identifier } }
  }

  private respond(decision: Decision): RatelimitResponse {
    const { allowed, limit, remaining, resetAfterMs, retryAfterMs, source } = decision
    if (source === 'posture') this.onSilence()
    else if (source === 'store') this.onAnswer()
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

  private onSilence(): void {
    if (this.#isSilent) return
    this.#isSilent = true
    const consequence = 'posture decides, and what is given back or reset is lost'
    this.#logger?.warn(`sluice: ${RULE}: the store does not answer; ${consequence}`)
  }

  private onAnswer(): void {
    if (!this.#isSilent) return
    this.#isSilent = false
    this.#logger?.warn(`sluice: ${RULE}: the store answers again`)
  }

  private nowMs(): number {
    return Math.floor(this.#clock.now() / 1000)
  }
}

function ruleOf({ limiter, timeout, posture = 'local' }: RatelimitConfig): object {
  const { algorithm, max, windowMs, burst, coordination } = limiter
  // The name of a limit without one is its algorithm and window: others have other counters.
  const limit = { algorithm, max, window: `${windowMs}ms` }
  return {
    id: RULE,
    by: ['prefix', 'identifier'],
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

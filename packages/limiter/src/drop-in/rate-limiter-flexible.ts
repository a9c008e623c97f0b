/**
 * A limiter for rate-limiter-flexible 11: it can take the place of `RateLimiterRedis` or
 * `RateLimiterMemory`, alone or inside a union, a queue or a wrapper of that library.
 */
import { MAX_UNITS, show, SluiceError } from '@sluice/core'
import { RateLimiterCompatibleAbstract, RateLimiterRes } from 'rate-limiter-flexible'
import { type DropInOptions, invalidOption, readDropInOptions } from './drop-in-options.js'
import { HitCounter, type HitName, type Hits } from './hit-counter.js'

/** Options of `RateLimiterSluice`. `prefix` is called `keyPrefix`, as in the host library. */
export interface RateLimiterSluiceOptions extends Omit<DropInOptions, 'prefix'> {
  /** How many points a key may consume in a duration; with 0 everything is rejected. */
  readonly points: number
  /** Seconds from the first point on; 0: the longest window, 366 days. */
  readonly duration: number
  /** Seconds that a key is rejected for when it goes over `points`; 0: until its duration ends. */
  readonly blockDuration?: number | undefined
  /** Whether admitted calls are delayed, to spread them over the duration. @default false */
  readonly execEvenly?: boolean | undefined
  /** The least of these delays, in milliseconds. @default duration / points */
  readonly execEvenlyMinDelayMs?: number | undefined
  /** Separates the keys of this limiter. @default 'rlflx' */
  readonly keyPrefix?: string | undefined
}

/** Options of single calls; others of the host library have no meaning here. */
export interface FlexibleCallOptions {
  /** Seconds, instead of `duration`. */
  readonly customDuration?: number | undefined
}

type Key = string | number

const HOST = 'rate-limiter-flexible'
const OWN_OPTIONS = [
  'points',
  'duration',
  'blockDuration',
  'execEvenly',
  'execEvenlyMinDelayMs',
  'keyPrefix',
]
/** What `msBeforeNext` is for a count that does not end. */
const NEVER_MS = -1

/**
 * Counts points for rate-limiter-flexible. A promise rejects with a `RateLimiterRes` if a key has
 * no points left, and never because Redis does not answer, unless `onSilence` is `reject`.
 *
 * @example
 * const limiter = new RateLimiterSluice({ store: redisStore({ url }), points: 5, duration: 1 })
 * await limiter.consume(userId)
 */
export class RateLimiterSluice extends RateLimiterCompatibleAbstract {
  override readonly keyPrefix: string
  override blockDuration: number
  override execEvenly: boolean
  points: number
  duration: number
  execEvenlyMinDelayMs: number | undefined
  readonly #counter: HitCounter

  constructor(options: RateLimiterSluiceOptions) {
    super()
    const { keyPrefix = 'rlflx', points, duration } = options ?? {}
    const common = readDropInOptions({ ...options, prefix: keyPrefix }, 'rlflx', OWN_OPTIONS)
    this.keyPrefix = common.prefix
    this.points = readNumber('points', points, Number.NEGATIVE_INFINITY)
    this.duration = readNumber('duration', duration, 0)
    this.blockDuration = readNumber('blockDuration', options.blockDuration ?? 0, 0)
    this.execEvenly = options.execEvenly ?? false
    this.execEvenlyMinDelayMs = options.execEvenlyMinDelayMs
    this.#counter = new HitCounter(HOST, common)
  }

  get msDuration(): number {
    return this.duration * 1000
  }

  get msBlockDuration(): number {
    return this.blockDuration * 1000
  }

  getKey(key: Key): string {
    return this.keyPrefix.length > 0 ? `${this.keyPrefix}:${key}` : String(key)
  }

  override async consume(
    key: Key,
    pointsToConsume = 1,
    options: FlexibleCallOptions = {},
  ): Promise<RateLimiterRes> {
    const counted = await this.add(key, pointsToConsume, options)
    const result = this.result(counted, pointsToConsume, options)
    if (counted.hits > this.points) throw this.refuse(key, counted, pointsToConsume, result)
    if (this.execEvenly && result.msBeforeNext > 0 && !result.isFirstInDuration) {
      return this.delay(result)
    }
    return result
  }

  override async penalty(
    key: Key,
    points = 1,
    options: FlexibleCallOptions = {},
  ): Promise<RateLimiterRes> {
    return this.result(await this.add(key, points, options), points, options)
  }

  /** Takes points back, never below 0: the host library would go below it. */
  override async reward(
    key: Key,
    points = 1,
    options: FlexibleCallOptions = {},
  ): Promise<RateLimiterRes> {
    requirePoints(points)
    const windowMs = this.windowMs(options)
    const before = await this.#counter.read(nameOf(key), windowMs, true)
    // The present window is meant, whenever its points were consumed.
    if (before.hits > 0) await this.#counter.subtract(nameOf(key), windowMs, points, before)
    return this.result({ ...before, hits: Math.max(0, before.hits - points) }, 0, options)
  }

  override async get(key: Key, options: FlexibleCallOptions = {}): Promise<RateLimiterRes | null> {
    const counted = await this.#counter.read(nameOf(key), this.windowMs(options), true)
    return counted.hits === 0 ? null : this.result(counted, 0, options)
  }

  override async set(key: Key, points: number, secDuration: number): Promise<RateLimiterRes> {
    requirePoints(points)
    const seconds = secDuration >= 0 ? secDuration : this.duration
    const { at } = await this.#counter.read(nameOf(key), this.msDuration, true)
    await this.#counter.hold(nameOf(key), points, durationMs(seconds), at)
    return new RateLimiterRes(0, seconds > 0 ? seconds * 1000 : NEVER_MS, points, false)
  }

  override block(key: Key, secDuration: number): Promise<RateLimiterRes> {
    return this.set(key, Math.max(0, Math.floor(this.points)) + 1, secDuration)
  }

  /** Whether there was something to delete. */
  override async delete(key: Key): Promise<boolean> {
    const { hits } = await this.#counter.read(nameOf(key), this.msDuration, true)
    await this.#counter.reset(nameOf(key))
    return hits > 0
  }

  /** Resolves when the store has started; points are counted in this process before. */
  ready(): Promise<void> {
    return this.#counter.ready()
  }

  /** Closes the store, unless another drop-in store uses it. */
  close(): Promise<void> {
    return this.#counter.close()
  }

  private add(key: Key, points: number, options: FlexibleCallOptions): Promise<Hits> {
    requirePoints(points)
    const windowMs = this.windowMs(options)
    const request = { windowMs, amount: points, holds: true, countsHeld: true }
    return this.#counter.count(nameOf(key), request)
  }

  private windowMs({ customDuration }: FlexibleCallOptions): number {
    const isCustom = customDuration !== undefined && customDuration >= 0
    return durationMs(isCustom ? customDuration : this.duration)
  }

  private result(
    { hits, resetMs, isHeld }: Hits,
    points: number,
    { customDuration = this.duration }: FlexibleCallOptions,
  ): RateLimiterRes {
    const isEndless = customDuration === 0 && !isHeld
    return new RateLimiterRes(
      Math.max(0, this.points - hits),
      isEndless ? NEVER_MS : resetMs,
      hits,
      points > 0 && hits === points && !isHeld,
    )
  }

  /** Blocks a key only when it goes over its points, not again with each call after that. */
  private refuse(key: Key, counted: Hits, points: number, result: RateLimiterRes): RateLimiterRes {
    const hasCrossed = counted.hits <= this.points + points
    if (this.blockDuration <= 0 || !hasCrossed) return result
    // The next call is sent after this one, so the answer need not wait for it.
    const { hits, at } = counted
    this.#counter.hold(nameOf(key), hits, durationMs(this.blockDuration), at).catch(() => {})
    return new RateLimiterRes(0, this.msBlockDuration, hits, result.isFirstInDuration)
  }

  private delay(result: RateLimiterRes): Promise<RateLimiterRes> {
    const { msBeforeNext, remainingPoints, consumedPoints } = result
    const least = this.execEvenlyMinDelayMs ?? Math.ceil(this.msDuration / this.points)
    const even = Math.ceil(msBeforeNext / (remainingPoints + 2))
    const delayMs = even < least ? consumedPoints * least : even
    // What the caller has waited already is no longer before it.
    const leftMs = Math.max(msBeforeNext - delayMs, 0)
    const delayed = new RateLimiterRes(remainingPoints, leftMs, consumedPoints, false)
    return new Promise((resolve) => setTimeout(resolve, delayMs, delayed))
  }
}

function nameOf(key: Key): HitName {
  return [String(key)]
}

/** A duration of 0 means for ever; the longest window comes nearest. */
function durationMs(seconds: number): number {
  return seconds === 0 ? Number.MAX_SAFE_INTEGER : seconds * 1000
}

function readNumber(option: string, value: number, least: number): number {
  if (typeof value === 'number' && Number.isFinite(value) && value >= least) return value
  const accepted = least === 0 ? 'a number from 0 on' : 'a finite number'
  throw invalidOption(option, show(value), accepted)
}

function requirePoints(points: number): void {
  if (Number.isSafeInteger(points) && points >= 0 && points <= MAX_UNITS) return
  throw new SluiceError(
    'CALL_COST_INVALID',
    `points: found ${show(points)}; accepted: a whole number from 0 to ${MAX_UNITS}`,
  )
}

/**
 * Counts hits for a host library, which decides. A window begins with the first hit of its key, and
 * no hit is refused unless the host library sets a `max`. While the store does not answer within
 * its deadline, hits are counted in this process and charged to the store when it is back.
 */
import { type Outcome, sipKey, SluiceError, type Take } from '@sluice/core'
import { monotonicMs } from '../clock.js'
import { SecretWait } from '../secret-wait.js'
import { isMisuse } from '../store-answer.js'
import { type Answer, DEFAULT_DEADLINE_MS, type Store } from '../store.js'
import { isConfirmedWithin } from './confirmation.js'
import { CounterLimits, CounterNames } from './counter-names.js'
import type { DropInSettings } from './drop-in-options.js'
import { addToHold, beginHold, HOLD_LIMIT, hitsOfHold, takeFromHold } from './holds.js'
import { LocalHits, PendingHit } from './local-hits.js'
import { acquireStore, releaseStore } from './store-users.js'

/** A key of the host library, and what else names its counters: a route, a throttler. */
export type HitName = readonly string[]

export interface HitRequest {
  readonly windowMs: number
  /** How many hits to count; 0 only reads. */
  readonly amount: number
  /** Above this many nothing is counted. @default no bound */
  readonly max?: number | undefined
  /** Whether a hold of the key is read too, and answers instead of its hits. @default false */
  readonly holds?: boolean | undefined
  /** Whether hits during a hold are added to it. @default false */
  readonly countsHeld?: boolean | undefined
}

/** The count of a key after a request. */
export interface Hits {
  readonly hits: number
  /** Milliseconds until the count ends; 0 if there is none. */
  readonly resetMs: number
  /** When it was counted, in microseconds of the store's clock. */
  readonly at: number
  /** False if `max` was reached before. */
  readonly isCounted: boolean
  /** Whether a hold answered. */
  readonly isHeld: boolean
  /** Whether this process answered, because the store did not. */
  readonly isLocal: boolean
}

export class HitCounter {
  readonly #host: string
  readonly #settings: DropInSettings
  readonly #store: Store
  readonly #limits = new CounterLimits()
  readonly #local: LocalHits | undefined
  readonly #secretWait: SecretWait | undefined
  readonly #deadlineMs: number
  #secret = sipKey(crypto.getRandomValues(new Uint8Array(16)))
  #names: CounterNames
  #generation = 0
  #isSilent = false
  #isClosed = false

  /** `host` is the name of the host library. */
  constructor(host: string, settings: DropInSettings) {
    this.#host = host
    this.#settings = settings
    this.#store = settings.store
    this.#names = this.makeNames()
    const { remote, sync } = this.#store
    this.#deadlineMs = remote?.deadlineMs ?? DEFAULT_DEADLINE_MS
    acquireStore(this.#store)
    if (sync !== undefined) return
    this.#local = new LocalHits(this.#store, settings)
    if (remote === undefined) return
    this.#secretWait = new SecretWait(remote, (secret) => {
      this.#secret = sipKey(secret)
      this.#names = this.makeNames()
    })
    remote.onAnswering(() => this.onAnswer())
  }

  /** Whether the counters are in this process. */
  get isInProcess(): boolean {
    return this.#local === undefined
  }

  /** Resolves when the store has started; hits are counted in this process before. */
  ready(): Promise<void> {
    return this.#secretWait?.ready ?? Promise.resolve()
  }

  async count(name: HitName, request: HitRequest): Promise<Hits> {
    this.requireOpen()
    const { sync } = this.#store
    if (sync !== undefined) {
      const [outcomes = []] = sync.take([this.takesOf(name, request)])
      return this.onCounted(name, request, outcomes, false)
    }
    const sinceMs = monotonicMs()
    const isNamed = await this.isNamed()
    const pending = new PendingHit(this.takesOf(name, request), isNamed)
    const leftMs = Math.max(1, Math.ceil(this.#deadlineMs - (monotonicMs() - sinceMs)))
    const answers = isNamed ? await this.ask(pending, leftMs) : NO_ANSWERS
    return this.onCounted(name, request, ...this.complete(pending, answers))
  }

  async read(name: HitName, windowMs: number, holds = false): Promise<Hits> {
    this.requireOpen()
    const request = { windowMs, amount: 0, holds }
    const isNamed = await this.isNamed()
    const takes = this.takesOf(name, request)
    try {
      if (!isNamed) throw silence()
      const [outcomes = []] = await this.#store.peek([takes])
      this.onAnswer()
      return hitsOf(request, takes, outcomes, false)
    } catch (error) {
      if (isMisuse(error) || this.#local === undefined) throw error
      this.onSilence()
      return hitsOf(request, takes, this.#local.peek(takes), true)
    }
  }

  /** Takes hits back, only from the window that they were counted in, and never below 0. */
  async subtract(name: HitName, windowMs: number, amount: number, counted?: Hits): Promise<void> {
    this.requireOpen()
    if (!(await this.isNamed()) && counted?.isLocal !== true) return
    const keys = this.#names.keysOf(name)
    const limit = this.#limits.get(windowMs)
    if (counted?.isHeld === true) {
      const charge = takeFromHold(keys.hold, amount, counted)
      await this.change((store) => [store.charge(charge)])
      return
    }
    const give = { key: keys.hits, limit, amount, at: counted?.at }
    if (counted?.isLocal === true) this.#local?.subtract(give)
    else await this.change((store) => [store.give(give)])
  }

  /** Begins the window of a key anew, with these hits in it. */
  async restart(name: HitName, windowMs: number, { hits, at }: Hits): Promise<void> {
    const { hits: key } = this.#names.keysOf(name)
    const limit = this.#limits.get(windowMs)
    await this.change((store) => [
      store.reset(key),
      store.charge({ key, limit, amount: hits, at, debt: 0 }),
    ])
  }

  /** Replaces the hits of a key, and an earlier hold, for `durationMs` from `at` on. */
  async hold(name: HitName, hits: number, durationMs: number, at: number): Promise<void> {
    const keys = this.#names.keysOf(name)
    await this.change((store) => [
      store.reset(keys.hits),
      store.reset(keys.hold),
      store.charge(beginHold(keys.hold, hits, durationMs, at)),
    ])
  }

  /** Deletes the hits and the hold of a key. */
  async reset(name: HitName): Promise<void> {
    this.requireOpen()
    await this.isNamed()
    const keys = this.#names.keysOf(name)
    this.#local?.forget(keys.hits)
    await this.change((store) => [store.reset(keys.hits), store.reset(keys.hold)])
  }

  /** Leaves all counters behind, where they are in this process; they expire unread. */
  resetAll(): void {
    this.#generation += 1
    this.#names = this.makeNames()
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#local?.close()
    await releaseStore(this.#store)
  }

  private makeNames(): CounterNames {
    const { prefix } = this.#settings
    const suffix = this.#generation === 0 ? '' : `:${this.#generation}`
    return new CounterNames(this.#secret, this.#host, `${prefix}${suffix}`)
  }

  private async isNamed(): Promise<boolean> {
    const wait = this.#secretWait
    return wait === undefined || wait.isKnown || wait.isKnownWithin(this.#deadlineMs)
  }

  private takesOf(name: HitName, { windowMs, amount, max, holds }: HitRequest): readonly Take[] {
    const keys = this.#names.keysOf(name)
    const limit = this.#limits.get(windowMs)
    const bounded = max === undefined ? limit : { ...limit, max, capacity: max }
    const hits = { key: keys.hits, limit: bounded, amount, atLeast: undefined }
    if (holds !== true) return [hits]
    return [hits, { key: keys.hold, limit: HOLD_LIMIT, amount: 0, atLeast: undefined }]
  }

  private async ask(pending: PendingHit, deadlineMs: number): Promise<readonly Answer[]> {
    try {
      const onLate = ([late = []]: readonly (readonly Answer[])[]) =>
        this.#local?.onLate(pending, late[0])
      const [answers = []] = await this.#store.take([pending.takes], { deadlineMs, onLate })
      return answers
    } catch (error) {
      if (isMisuse(error)) throw error
      return NO_ANSWERS
    }
  }

  /** Takes what the store did not answer from the counters of this process. */
  private complete(
    pending: PendingHit,
    answers: readonly Answer[],
  ): readonly [outcomes: readonly Outcome[], isLocal: boolean] {
    const isLocal = typeof answers[0] !== 'object'
    if (isLocal) this.onSilence()
    else this.onAnswer()
    const outcomes = pending.takes.flatMap((take, i) => {
      const answer = answers[i]
      if (typeof answer === 'object') return answer
      return (i === 0 ? this.#local?.take(pending, answer) : this.#local?.peek([take])[0]) ?? []
    })
    return [outcomes, isLocal]
  }

  private onCounted(
    name: HitName,
    request: HitRequest,
    outcomes: readonly Outcome[],
    isLocal: boolean,
  ): Hits {
    const hits = hitsOf(request, this.takesOf(name, request), outcomes, isLocal)
    const { windowMs, amount, countsHeld } = request
    if (!hits.isHeld || amount === 0) return isLocal ? this.scaleToFleet(hits) : hits
    // A hold answers instead of the hits, so what was just counted must not outlive it.
    const keys = this.#names.keysOf(name)
    const back = { key: keys.hits, limit: this.#limits.get(windowMs), amount, at: hits.at }
    if (isLocal) this.#local?.subtract(back)
    void this.change((store) => [
      ...(isLocal ? [] : [store.give(back)]),
      ...(countsHeld === true ? [store.give(addToHold(keys.hold, amount, hits.hits))] : []),
    ]).catch(() => {})
    return hits
  }

  /**
   * Counts for the other nodes too, as each of n nodes sees about one hit in n: with a limit of L
   * the host library then admits at most ceil(L / n) hits on each.
   */
  private scaleToFleet(counted: Hits): Hits {
    const nodes = Math.max(1, Math.floor(this.#store.remote?.fleetSize() ?? 1))
    const hits = counted.hits === 0 ? 0 : (counted.hits - 1) * nodes + 1
    return { ...counted, hits }
  }

  /** Makes a change here at once, and waits until the store confirms it or the deadline passes. */
  private async change(verbs: (store: Store) => readonly Promise<void>[]): Promise<void> {
    if (this.#local === undefined) {
      await Promise.all(verbs(this.#store))
      return
    }
    await Promise.all(verbs(this.#local.store))
    // Before the secret is known, the store has these counters under other names.
    const isConfirmed =
      this.#secretWait?.isKnown !== false &&
      (await isConfirmedWithin(this.#deadlineMs, Promise.all(verbs(this.#store))))
    if (!isConfirmed) this.onSilence()
  }

  private onSilence(): void {
    const { rejects, logger } = this.#settings
    this.#local?.onSilence()
    if (!this.#isSilent) {
      this.#isSilent = true
      const consequence = rejects ? 'hits are not counted' : 'hits are counted in this process'
      logger?.warn(`sluice: ${this.#host}: the store does not answer; ${consequence}`)
    }
    if (rejects) throw silence()
  }

  private onAnswer(): void {
    this.#local?.onAnswer()
    if (!this.#isSilent) return
    this.#isSilent = false
    this.#settings.logger?.warn(`sluice: ${this.#host}: the store answers again`)
  }

  private requireOpen(): void {
    if (!this.#isClosed) return
    throw new SluiceError('LIMITER_CLOSED', `This store of ${this.#host} was closed`)
  }
}

const NO_ANSWERS: readonly Answer[] = []

function silence(): SluiceError {
  return new SluiceError('STORE_FAILED', 'The store did not answer within its deadline')
}

function hitsOf(
  { amount, countsHeld }: HitRequest,
  [take]: readonly Take[],
  [outcome, hold]: readonly Outcome[],
  isLocal: boolean,
): Hits {
  if (take === undefined || outcome === undefined) throw silence()
  const { at } = outcome
  const held = hold === undefined ? 0 : hitsOfHold(hold)
  if (hold !== undefined && held > 0) {
    const hits = held + (countsHeld === true ? amount : 0)
    return { hits, resetMs: hold.resetAfterMs, at, isCounted: false, isHeld: true, isLocal }
  }
  const { remaining, resetAfterMs, retryAfterMs } = outcome
  return {
    hits: take.limit.max - remaining,
    resetMs: resetAfterMs,
    at,
    isCounted: retryAfterMs === 0,
    isHeld: false,
    isLocal,
  }
}

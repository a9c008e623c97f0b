/**
 * Follows a rule store: what it holds is in the book and in force here soon after it changed. A
 * store that is gone, or holds what cannot be used, changes nothing.
 */
import type { Limiter } from '@sluice/limiter'
import { wallClock } from '../clock.js'
import type { Log } from '../log/logger.js'
import { messageOf } from '../message-of.js'
import { Turns } from '../turns.js'
import {
  DivergedError,
  type NodeReport,
  type RuleStore,
  type StoreStatus,
  UnavailableError,
} from '../rule-store/rule-store.js'
import { type Book, createBook, type TakenNews } from './book.js'
import { Confirmation } from './confirmation.js'
import { NO_STAND_INS, RulesInForce } from './in-force.js'
import type { KeySink } from './key-sink.js'
import type { CopyReading, LastGood } from './last-good.js'
import { NodeReports } from './node-reports.js'
import { ReadLoop } from './read-loop.js'
import { Reading } from './reading.js'
import { nodeProblem, type RuleSource } from './rule-source.js'
import { ShadowWatch } from './shadow-watch.js'
import { TimedShadow } from './timed-shadow.js'
import { systemTimers, type Timers } from './timers.js'
import { withinMs } from './within.js'

export interface FollowOptions {
  /** Closed with the source. */
  readonly store: RuleStore
  readonly limiter: Pick<Limiter, 'setParsedRules' | 'changeOverrides' | 'replaceOverrides'>
  /** Where known keys go. */
  readonly keys: KeySink
  readonly log: Log
  /** What the store is told of this node. */
  readonly node: Omit<NodeReport, 'rulesVersion' | 'problem'>
  /** Where the store is elsewhere. */
  readonly lastGood?: LastGood | undefined
  /** Attributes that callers may set themselves, by a header. @default not known */
  readonly fromHeaders?: ReadonlySet<string> | undefined
  /** @default the system's */
  readonly timers?: Timers | undefined
  /** Milliseconds since 1970. @default the system's */
  readonly wallMs?: (() => number) | undefined
}

/** How long a start waits for the store. */
const START_MS_MAX = 5000
/** A store that says nothing for so long in the middle of a reading is gone. */
const SILENCE_MS_MAX = 30_000
const DIVERGED_EVERY_MS = 60_000
/** A store that was there for so long had its changes read as they came. */
const STEADY_MS = 15_000
/** Nothing came from the store; rules are to be read as they shall be now. */
const RULES_AGAIN: TakenNews = {
  isWhole: false,
  rulesChanged: true,
  overridesChanged: [],
  overrides: () => [],
}

/**
 * Resolves when the store was read, or at the latest after a few seconds: then the rules of the
 * last good copy are in force, or none, and it is not ready. It goes on trying.
 */
export async function followStore(options: FollowOptions): Promise<RuleSource> {
  const source = new StoreSource(options)
  await source.start()
  return source
}

class StoreSource implements RuleSource {
  readonly name: string
  readonly store: RuleStore
  readonly book: Book = createBook()
  readonly #options: FollowOptions
  readonly #timers: Timers
  readonly #inForce: RulesInForce
  readonly #shadow: TimedShadow
  /** A reading and the end of a shadow both change what is in force, one after the other. */
  readonly #turns = new Turns(1)
  readonly #shadowWatch: ShadowWatch
  readonly #loop: ReadLoop
  readonly #confirmation: Confirmation
  readonly #reports: NodeReports
  #stopNews = () => {}
  #version = 0
  /** When the last reading that succeeded had ended. */
  #readMs = -Infinity
  #hasHadRules = false
  /** Why the last reading failed. */
  #failure: UnavailableError | DivergedError | undefined
  #divergedToldMs = -Infinity
  /** Whether the reading under way has brought something. */
  #isAnswering = false
  #isClosed = false
  /** Ends the wait for the store. */
  #stopWaiting = () => {}

  constructor(options: FollowOptions) {
    const { store, limiter, log, fromHeaders, timers = systemTimers } = options
    this.name = store.name
    this.store = store
    this.#options = options
    this.#timers = timers
    const nowMs = () => timers.nowMs()
    const { wallMs = () => wallClock.now() } = options
    this.#shadow = new TimedShadow({ nowMs, wallMs })
    const putAgain = () => this.putAgain()
    const isStale = () => this.#inForce.isShadowStale
    this.#shadowWatch = new ShadowWatch({ shadow: this.#shadow, timers, log, isStale, putAgain })
    this.#inForce = new RulesInForce({ limiter, log, fromHeaders, shadow: this.#shadow })
    this.#loop = new ReadLoop(() => this.read(), timers)
    this.#reports = new NodeReports(store, timers, () => this.describe())
    this.#confirmation = new Confirmation({
      timers,
      isConfirmed: () => this.isReady() && this.problem() === undefined,
    })
  }

  async start(): Promise<void> {
    await this.readLastGood()
    // Not before: one thing at a time is read into the book. And not after: nothing is missed.
    this.#stopNews = this.store.onNews(() => this.#loop.news())
    const read = this.#loop.now()
    try {
      await withinMs(read, START_MS_MAX, this.#timers)
    } catch (error) {
      // A million keys may take longer; what counts is whether it answers.
      if (this.#isAnswering) await read.catch(() => {})
      else this.#failure ??= failureOf(error)
    }
    // The rules of the last good copy count where the store did not answer, and only there.
    this.noteRules()
    this.#reports.tell()
    if (this.isReady()) return
    const { log } = this.#options
    log.error({ problem: this.problem() }, 'there are no rules yet, so nothing is decided')
  }

  isReady(): boolean {
    return this.#inForce.isReady
  }

  hasHadRules(): boolean {
    return this.#hasHadRules
  }

  version(): number {
    return this.#version
  }

  ageSeconds(): number {
    return this.#confirmation.ageSeconds()
  }

  failures(): number {
    return this.#inForce.failures
  }

  problem(): string | undefined {
    const failure = this.#failure
    if (failure instanceof DivergedError) return this.divergence(failure)
    if (failure !== undefined) return this.named(failure.message)
    const { isConnected, problem } = this.store.status()
    if (!isConnected) return this.named(problem ?? 'it does not answer')
    return this.#inForce.problem()
  }

  shadowUntil(rule?: string): string | undefined {
    return this.#shadow.until(rule)
  }

  status(): StoreStatus {
    return this.store.status()
  }

  async refresh(version: number): Promise<void> {
    // One below may be that of a store that went back: only a reading tells.
    if (version === this.#version) return
    await this.#loop.now()
    if (this.#version >= version) return
    const why = this.#inForce.problem() ?? `the store is at ${this.book.position?.version ?? 0}`
    throw new UnavailableError(`version ${version} is not in force here: ${why}`)
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#stopNews()
    this.#shadowWatch.close()
    this.#confirmation.close()
    this.#reports.close()
    this.#stopWaiting()
    await this.#loop.close()
    await this.#options.lastGood?.settled()
    await this.store.close()
  }

  private async readLastGood(): Promise<void> {
    const { lastGood, log, keys } = this.#options
    if (lastGood === undefined) return
    const reading = new Reading(this.book, keys)
    for await (const chunk of lastGood.read()) {
      const news = reading.take(chunk)
      if (news === undefined) continue
      this.#inForce.useStandIns(chunk.standIns ?? NO_STAND_INS)
      await this.putIntoForce(news, reading, { isFresh: false })
      log.info({ version: this.#version }, 'last good rules in force until the store tells others')
      return
    }
    reading.drop()
  }

  private async read(): Promise<void> {
    try {
      await this.readStore()
    } catch (error) {
      const failure = failureOf(error)
      this.tellFailure(failure)
      this.#failure = failure
      throw failure
    }
    if (this.#failure !== undefined) {
      this.#options.log.info({ store: this.name }, 'the rule store is followed again')
    }
    this.#failure = undefined
    this.#readMs = this.#timers.nowMs()
    this.noteRules()
  }

  private noteRules(): void {
    if (this.#inForce.ruleCount > 0) this.#hasHadRules = true
  }

  private async readStore(): Promise<void> {
    const { keys, lastGood } = this.#options
    const reading = new Reading(this.book, keys)
    const isFresh = this.isReady() && this.isSteady()
    let copy: CopyReading | undefined
    const chunks = this.store.read(this.book.position)[Symbol.asyncIterator]()
    try {
      for (;;) {
        const { done, value: chunk } = await this.unlessStopped(chunks.next())
        if (this.#isClosed) throw new UnavailableError('this node is being stopped')
        this.#isAnswering = true
        if (done === true) throw new UnavailableError('the reading of the rules was cut off')
        copy ??= lastGood?.begin(chunk.isWhole)
        await copy?.put(chunk.records)
        const news = reading.take(chunk)
        if (news === undefined) continue
        copy?.done()
        copy = undefined
        await this.putIntoForce(news, reading, { isFresh, lastGood })
        return
      }
    } catch (error) {
      reading.drop()
      copy?.drop()
      throw error
    } finally {
      this.#isAnswering = false
      // It may be waiting for a store that never answers.
      void chunks.return?.().catch(() => {})
    }
  }

  /**
   * Whether what is new now was stored a moment ago: the store was there since it was last read, or
   * long enough. One that comes back after an hour confirms its rules, but its news may be as old.
   */
  private isSteady(): boolean {
    const sinceMs = Math.max(this.#readMs, this.#timers.nowMs() - STEADY_MS)
    return this.#confirmation.isUnbrokenSince(sinceMs)
  }

  private unlessStopped<Answer>(answer: Promise<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#stopWaiting = () => reject(new UnavailableError('this node is being stopped'))
      withinMs(answer, SILENCE_MS_MAX, this.#timers).then(resolve, reject)
    })
  }

  private async putIntoForce(
    news: TakenNews,
    reading: Reading,
    { isFresh, lastGood }: { readonly isFresh: boolean; readonly lastGood?: LastGood | undefined },
  ): Promise<void> {
    const position = this.book.position
    const version = position?.version ?? 0
    if (reading.isEmpty && version === this.#version && !this.#inForce.isTorn) return
    let isTaken: boolean
    try {
      isTaken = await this.#turns.run(async () => {
        this.#shadow.take(this.book.set.shadow, isFresh && !news.isWhole)
        return this.#inForce.put(this.book, news, () => reading.useKeys())
      })
    } finally {
      // They depend on no rule, and come once.
      reading.useKeys()
    }
    this.#shadowWatch.update()
    for (const { id, problem } of reading.refusedKeys) {
      this.#options.log.error({ id, problem }, 'key refused; it is as good as unknown')
    }
    if (!isTaken || position === undefined) return
    if (version !== this.#version) {
      this.#version = version
      this.#options.log.info({ version, store: this.name }, 'rules in force')
      this.#reports.tell()
    }
    lastGood?.keep(position, this.#inForce.standIns())
  }

  /** Needs no store: what is known already is put into force as it shall be now. */
  private async putAgain(): Promise<void> {
    await this.#turns.run(async () => {
      if (!this.#isClosed) await this.#inForce.put(this.book, RULES_AGAIN, () => {})
    })
  }

  private tellFailure(failure: UnavailableError | DivergedError): void {
    const { log } = this.#options
    if (failure instanceof DivergedError) {
      const nowMs = this.#timers.nowMs()
      if (nowMs - this.#divergedToldMs < DIVERGED_EVERY_MS) return
      this.#divergedToldMs = nowMs
      log.error({ problem: this.divergence(failure) }, 'the rule store is not followed')
    } else if (this.#failure === undefined && !this.#isClosed) {
      const fields = { store: this.name, problem: failure.message }
      log.warn(fields, 'the rule store was not read; the rules in force stay')
    }
  }

  /** Once: some of what a store says begins with its name. */
  private named(message: string): string {
    return message.startsWith(`${this.name}: `) ? message : `${this.name}: ${message}`
  }

  private divergence({ store, message }: DivergedError): string {
    const versions = `${this.name} is at version ${store.version}, this node runs ${this.#version}`
    const advice = 'What is in force stays; `sluice rules adopt` makes every node follow the store'
    return `${versions}: ${message.replace(`${this.name}: `, '')}. ${advice}`
  }

  private describe(): NodeReport {
    return { ...this.#options.node, rulesVersion: this.#version, problem: nodeProblem(this) }
  }
}

function failureOf(error: unknown): UnavailableError | DivergedError {
  if (error instanceof UnavailableError || error instanceof DivergedError) return error
  return new UnavailableError(messageOf(error), { cause: error })
}

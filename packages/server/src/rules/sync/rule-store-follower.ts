/**
 * Follows a rule store: what it holds is in the book and in force here soon after it changed. A
 * store that is gone, or holds what cannot be used, changes nothing.
 */
import type { Limiter } from '@sluice/limiter'
import { wallClock } from '../../lib/wall-clock.js'
import type { Log } from '../../observability/log/logger.js'
import { messageOf } from '../../lib/message-of.js'
import { Semaphore } from '../../lib/semaphore.js'
import {
  DivergedError,
  type NodeReport,
  type RuleStore,
  type StoreStatus,
  UnavailableError,
} from '../store/rule-store.js'
import { type WritableCatalog, createCatalog, type CatalogUpdate } from './rule-catalog.js'
import { RulesAge } from './rules-age.js'
import { NO_LAST_GOOD_VERSIONS, ActiveRules } from './active-rules.js'
import type { KeyReceiver } from './key-receiver.js'
import type { CopyUpdate, LastKnownGood } from './last-known-good/last-known-good.js'
import { NodeReports } from './node-reports.js'
import { ReadLoop } from './read-loop.js'
import { SyncPass } from './sync-pass.js'
import { nodeProblem, type RuleFollower } from './rule-follower.js'
import { ShadowWatch } from './shadow-watch.js'
import { TimedShadow } from './timed-shadow.js'
import { systemScheduler, type Scheduler } from '../../lib/scheduler.js'

export interface FollowOptions {
  /** Closed with the source. */
  readonly store: RuleStore
  readonly limiter: Pick<Limiter, 'setParsedRules' | 'changeOverrides' | 'replaceOverrides'>
  /** Where known keys go. */
  readonly keys: KeyReceiver
  readonly log: Log
  /** What the store is told of this node. */
  readonly node: Omit<NodeReport, 'rulesVersion' | 'problem'>
  /** Where the store is elsewhere. */
  readonly lastKnownGood?: LastKnownGood | undefined
  /** Attributes that callers may set themselves, by a header. @default not known */
  readonly fromHeaders?: ReadonlySet<string> | undefined
  /** @default the system's */
  readonly scheduler?: Scheduler | undefined
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
const REREAD_RULES: CatalogUpdate = {
  isWhole: false,
  rulesChanged: true,
  overrides: () => [],
}

/**
 * Resolves when the store was read, or at the latest after a few seconds: then the rules of the
 * last good copy are in force, or none, and it is not ready. It goes on trying.
 */
export async function followStore(options: FollowOptions): Promise<RuleFollower> {
  const follower = new RuleStoreFollower(options)
  await follower.start()
  return follower
}

class RuleStoreFollower implements RuleFollower {
  readonly name: string
  readonly store: RuleStore
  readonly catalog: WritableCatalog = createCatalog()
  readonly #options: FollowOptions
  readonly #scheduler: Scheduler
  readonly #activeRules: ActiveRules
  readonly #shadow: TimedShadow
  /** A reading and the end of a shadow both change what is in force, one after the other. */
  readonly #semaphore = new Semaphore(1)
  readonly #shadowWatch: ShadowWatch
  readonly #loop: ReadLoop
  readonly #rulesAge: RulesAge
  readonly #reports: NodeReports
  #stopListening = () => {}
  #version = 0
  /** When the last reading that succeeded had ended. */
  #readMs = -Infinity
  #hasHadRules = false
  /** Why the last reading failed. */
  #failure: UnavailableError | DivergedError | undefined
  #divergedLoggedMs = -Infinity
  /** Whether the reading under way has brought something. */
  #isAnswering = false
  #isClosed = false
  /** Ends the wait for the store. */
  #stopWaiting = () => {}

  constructor(options: FollowOptions) {
    const { store, limiter, log, fromHeaders, scheduler = systemScheduler } = options
    this.name = store.name
    this.store = store
    this.#options = options
    this.#scheduler = scheduler
    const nowMs = () => scheduler.nowMs()
    const { wallMs = () => wallClock.now() } = options
    this.#shadow = new TimedShadow({ nowMs, wallMs })
    const reactivate = () => this.reactivate()
    const isStale = () => this.#activeRules.isShadowStale
    this.#shadowWatch = new ShadowWatch({
      shadow: this.#shadow,
      scheduler,
      log,
      isStale,
      reactivate,
    })
    this.#activeRules = new ActiveRules({ limiter, log, fromHeaders, shadow: this.#shadow })
    this.#loop = new ReadLoop(() => this.read(), scheduler)
    this.#reports = new NodeReports(store, scheduler, () => this.describe())
    this.#rulesAge = new RulesAge({
      scheduler,
      isConfirmed: () => this.isReady() && this.problem() === undefined,
    })
  }

  async start(): Promise<void> {
    await this.readLastKnownGood()
    // Not before: one thing at a time is read into the book. And not after: nothing is missed.
    this.#stopListening = this.store.onChange(() => this.#loop.requestRead())
    const read = this.#loop.readNow()
    try {
      await withTimeout(read, START_MS_MAX, this.#scheduler)
    } catch (error) {
      // A million keys may take longer; what counts is whether it answers.
      if (this.#isAnswering) await read.catch(() => {})
      else this.#failure ??= failureOf(error)
    }
    // The rules of the last good copy count where the store did not answer, and only there.
    this.recordRules()
    this.#reports.report()
    if (this.isReady()) return
    const { log } = this.#options
    log.error({ problem: this.problem() }, 'there are no rules yet, so nothing is decided')
  }

  isReady(): boolean {
    return this.#activeRules.isReady
  }

  hasHadRules(): boolean {
    return this.#hasHadRules
  }

  version(): number {
    return this.#version
  }

  ageSeconds(): number {
    return this.#rulesAge.ageSeconds()
  }

  failures(): number {
    return this.#activeRules.failures
  }

  problem(): string | undefined {
    const failure = this.#failure
    if (failure instanceof DivergedError) return this.divergence(failure)
    if (failure !== undefined) return this.named(failure.message)
    const { isConnected, problem } = this.store.status()
    if (!isConnected) return this.named(problem ?? 'it does not answer')
    return this.#activeRules.problem()
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
    await this.#loop.readNow()
    if (this.#version >= version) return
    const why =
      this.#activeRules.problem() ?? `the store is at ${this.catalog.position?.version ?? 0}`
    throw new UnavailableError(`version ${version} is not in force here: ${why}`)
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#stopListening()
    this.#shadowWatch.close()
    this.#rulesAge.close()
    this.#reports.close()
    this.#stopWaiting()
    await this.#loop.close()
    await this.#options.lastKnownGood?.flush()
    await this.store.close()
  }

  private async readLastKnownGood(): Promise<void> {
    const { lastKnownGood, log, keys } = this.#options
    if (lastKnownGood === undefined) return
    const pass = new SyncPass(this.catalog, keys)
    for await (const chunk of lastKnownGood.read()) {
      const update = pass.addChunk(chunk)
      if (update === undefined) continue
      this.#activeRules.useLastGoodVersions(chunk.standIns ?? NO_LAST_GOOD_VERSIONS)
      await this.activate(update, pass, { isFresh: false })
      log.info({ version: this.#version }, 'last good rules in force until the store tells others')
      return
    }
    pass.discard()
  }

  private async read(): Promise<void> {
    try {
      await this.readStore()
    } catch (error) {
      const failure = failureOf(error)
      this.logFailure(failure)
      this.#failure = failure
      throw failure
    }
    if (this.#failure !== undefined) {
      this.#options.log.info({ store: this.name }, 'the rule store is followed again')
    }
    this.#failure = undefined
    this.#readMs = this.#scheduler.nowMs()
    this.recordRules()
  }

  private recordRules(): void {
    if (this.#activeRules.ruleCount > 0) this.#hasHadRules = true
  }

  private async readStore(): Promise<void> {
    const { keys, lastKnownGood } = this.#options
    const pass = new SyncPass(this.catalog, keys)
    const isFresh = this.isReady() && this.isSteady()
    let copyUpdate: CopyUpdate | undefined
    const chunks = this.store.read(this.catalog.position)[Symbol.asyncIterator]()
    try {
      for (;;) {
        const { done, value: chunk } = await this.unlessStopped(chunks.next())
        if (this.#isClosed) throw new UnavailableError('this node is being stopped')
        this.#isAnswering = true
        if (done === true) throw new UnavailableError('the reading of the rules was cut off')
        copyUpdate ??= lastKnownGood?.begin(chunk.isWhole)
        await copyUpdate?.add(chunk.records)
        const update = pass.addChunk(chunk)
        if (update === undefined) continue
        copyUpdate?.complete()
        copyUpdate = undefined
        await this.activate(update, pass, { isFresh, lastKnownGood })
        return
      }
    } catch (error) {
      pass.discard()
      copyUpdate?.discard()
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
    const sinceMs = Math.max(this.#readMs, this.#scheduler.nowMs() - STEADY_MS)
    return this.#rulesAge.isUnbrokenSince(sinceMs)
  }

  private unlessStopped<Answer>(answer: Promise<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#stopWaiting = () => reject(new UnavailableError('this node is being stopped'))
      withTimeout(answer, SILENCE_MS_MAX, this.#scheduler).then(resolve, reject)
    })
  }

  private async activate(
    update: CatalogUpdate,
    pass: SyncPass,
    {
      isFresh,
      lastKnownGood,
    }: { readonly isFresh: boolean; readonly lastKnownGood?: LastKnownGood | undefined },
  ): Promise<void> {
    const position = this.catalog.position
    const version = position?.version ?? 0
    if (pass.isEmpty && version === this.#version && !this.#activeRules.needsFullReload) return
    let isActivated: boolean
    try {
      isActivated = await this.#semaphore.run(async () => {
        this.#shadow.update(this.catalog.set.shadow, isFresh && !update.isWhole)
        return this.#activeRules.activate(this.catalog, update, () => pass.useKeys())
      })
    } finally {
      // They depend on no rule, and come once.
      pass.useKeys()
    }
    this.#shadowWatch.update()
    for (const { id, problem } of pass.refusedKeys) {
      this.#options.log.error({ id, problem }, 'key refused; it is as good as unknown')
    }
    if (!isActivated || position === undefined) return
    if (version !== this.#version) {
      this.#version = version
      this.#options.log.info({ version, store: this.name }, 'rules in force')
      this.#reports.report()
    }
    lastKnownGood?.save(position, this.#activeRules.lastGoodVersions())
  }

  /** Needs no store: what is known already is put into force as it shall be now. */
  private async reactivate(): Promise<void> {
    await this.#semaphore.run(async () => {
      if (!this.#isClosed) await this.#activeRules.activate(this.catalog, REREAD_RULES, () => {})
    })
  }

  private logFailure(failure: UnavailableError | DivergedError): void {
    const { log } = this.#options
    if (failure instanceof DivergedError) {
      const nowMs = this.#scheduler.nowMs()
      if (nowMs - this.#divergedLoggedMs < DIVERGED_EVERY_MS) return
      this.#divergedLoggedMs = nowMs
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

/** Rejects with an `UnavailableError` if it takes longer; what is waited for goes on. */
function withTimeout<Answer>(
  promise: Promise<Answer>,
  ms: number,
  scheduler: Scheduler,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const cancel = scheduler.after(ms, () => {
      reject(new UnavailableError(`it did not answer within ${ms / 1000} s`))
    })
    promise.then(resolve, reject).finally(cancel)
  })
}

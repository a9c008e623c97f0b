/**
 * Follows a rule store and activates its rules on this node shortly after they change. If the store
 * is unreachable, or a rule is invalid, the active rules stay.
 */
import type { RuleContext } from '@sluice/core'
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
  /** Closed with the follower. */
  readonly store: RuleStore
  readonly limiter: Pick<Limiter, 'setParsedRules' | 'changeOverrides' | 'replaceOverrides'>
  /** Receives the API keys of the store. */
  readonly keys: KeyReceiver
  readonly log: Log
  /** What this node reports to the store. */
  readonly node: Omit<NodeReport, 'rulesVersion' | 'problem'>
  /** Undefined where the store is on this machine's disk itself. */
  readonly lastKnownGood?: LastKnownGood | undefined
  /** What is known of this node. @default nothing */
  readonly ruleContext?: RuleContext | undefined
  /** @default the system's */
  readonly scheduler?: Scheduler | undefined
  /** Milliseconds since 1970. @default the system's */
  readonly wallMs?: (() => number) | undefined
}

/** How long the start waits for the store. */
const START_MS_MAX = 5000
/** A store that sends nothing for this long during a read counts as unreachable. */
const SILENCE_MS_MAX = 30_000
const DIVERGED_EVERY_MS = 60_000
/** After a store was reachable for this long, its changes were read as they were made. */
const STEADY_MS = 15_000
/** No change from the store, but rules have to be parsed again: a timed shadow ended. */
const REREAD_RULES: CatalogUpdate = {
  isWhole: false,
  rulesChanged: true,
  overrides: () => [],
}

/**
 * Resolves when the store was read, at the latest after a few seconds. If the store did not answer
 * by then, the last known good rules are active, or there are none and the node is not ready; the
 * follower keeps trying.
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
  /** Serializes reads and ends of shadows: both change the active rules. */
  readonly #semaphore = new Semaphore(1)
  readonly #shadowWatch: ShadowWatch
  readonly #loop: ReadLoop
  readonly #rulesAge: RulesAge
  readonly #reports: NodeReports
  #stopListening = () => {}
  #version = 0
  /** When the last successful read ended. */
  #readMs = -Infinity
  #hasHadRules = false
  /** Why the last read failed. */
  #failure: UnavailableError | DivergedError | undefined
  #divergedLoggedMs = -Infinity
  /** Whether the read in progress has received a chunk. */
  #isAnswering = false
  #isClosed = false
  /** Cancels the wait for the store. */
  #stopWaiting = () => {}

  constructor(options: FollowOptions) {
    const { store, limiter, log, ruleContext, scheduler = systemScheduler } = options
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
    this.#activeRules = new ActiveRules({ limiter, log, ruleContext, shadow: this.#shadow })
    this.#loop = new ReadLoop(() => this.read(), scheduler)
    this.#reports = new NodeReports(store, scheduler, () => this.describe())
    this.#rulesAge = new RulesAge({
      scheduler,
      isConfirmed: () => this.isReady() && this.problem() === undefined,
    })
  }

  async start(): Promise<void> {
    await this.readLastKnownGood()
    // After the copy was read, since the catalog takes one read at a time; and before the first
    // read of the store, so that no change is missed.
    this.#stopListening = this.store.onChange(() => this.#loop.requestRead())
    const read = this.#loop.readNow()
    try {
      await withTimeout(read, START_MS_MAX, this.#scheduler)
    } catch (error) {
      // A million keys may take longer than the timeout: wait on if the store is sending.
      if (this.#isAnswering) await read.catch(() => {})
      else this.#failure ??= failureOf(error)
    }
    // Not before: rules of the last known good copy count only if the store did not answer.
    this.recordRules()
    this.#reports.report()
    if (this.isReady()) return
    const { log } = this.#options
    log.error({ problem: this.problem() }, 'no rules loaded yet: nothing is decided')
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
    // A lower version may be that of a store that was restored to an older state: only a read
    // can show it.
    if (version === this.#version) return
    await this.#loop.readNow()
    if (this.#version >= version) return
    const why =
      this.#activeRules.problem() ?? `the store is at ${this.catalog.position?.version ?? 0}`
    throw new UnavailableError(`version ${version} is not active on this node: ${why}`)
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
      log.info(
        { version: this.#version },
        'using last known good rules until the rule store answers',
      )
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
      this.#options.log.info({ store: this.name }, 'rule store: following again')
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
        if (done === true) throw new UnavailableError('the read ended before its last chunk')
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
      // Not awaited: it may wait for a store that never answers.
      void chunks.return?.().catch(() => {})
    }
  }

  /**
   * Whether changes that are read now were made a moment ago: the store was reachable since the
   * last read, or long enough. Changes in a store that was unreachable for an hour may be as old.
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
      // Even if activation failed: keys depend on no rule, and are not sent again.
      pass.useKeys()
    }
    this.#shadowWatch.update()
    for (const { id, problem } of pass.refusedKeys) {
      this.#options.log.error({ id, problem }, 'API key ignored: invalid record')
    }
    if (!isActivated || position === undefined) return
    if (version !== this.#version) {
      this.#version = version
      this.#options.log.info({ version, store: this.name }, 'rules activated')
      this.#reports.report()
    }
    lastKnownGood?.save(position, this.#activeRules.lastGoodVersions())
  }

  /** Activates the known rules again, with the timed shadows of now. Does not need the store. */
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
      log.error({ problem: this.divergence(failure) }, 'rule store diverged: not following')
    } else if (this.#failure === undefined && !this.#isClosed) {
      const fields = { store: this.name, problem: failure.message }
      log.warn(fields, 'rule store unreachable: active rules stay')
    }
  }

  /** Prefixes a message with the store's name, unless it has that prefix already. */
  private named(message: string): string {
    return message.startsWith(`${this.name}: `) ? message : `${this.name}: ${message}`
  }

  private divergence({ store, message }: DivergedError): string {
    const versions = `${this.name} is at version ${store.version}, this node runs ${this.#version}`
    const advice = 'The active rules stay; `sluice rules adopt` makes every node follow the store'
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

/** Rejects with an `UnavailableError` after `ms`; the work itself is not cancelled. */
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

/** The rule store in Postgres, which several nodes share. */
import { monotonicMs } from '../../../lib/wall-clock.js'
import type { DatabaseConfig } from '../../../config/config.js'
import type { Log } from '../../../observability/log/logger.js'
import { messageOf } from '../../../lib/message-of.js'
import type { StoredKey } from '../records.js'
import {
  type RecordChunk,
  type Commit,
  type HistoryQuery,
  type KeysQuery,
  type NodeReport,
  type LiveNode,
  type PastChange,
  type PastVersion,
  type Position,
  type RuleStore,
  type StoreStatus,
  UnavailableError,
} from '../rule-store.js'
import { prepareConnection } from './connection-settings.js'
import { Database } from './database.js'
import { isSchemaMissing } from './postgres-errors.js'
import { INTERVALS, type Intervals, pause, retryMs } from './intervals.js'
import { VersionListener } from './version-listener.js'
import { migrate, type Migration, MIGRATIONS } from './migrate.js'
import { readHistory, readKey, readKeys, readNodes, reportNode } from './version-history.js'
import { readChangesAfter, readChunks } from './read.js'
import { adoptStore, commitChanges } from './commit.js'

const OPEN_MS_MAX = 2000
const COMMITS_WAITING_MAX = 100
/** A commit that waits longer behind others fails with that reason, before the client gives up. */
const COMMIT_TURN_MS_MAX = 5000

export interface PostgresStoreOptions {
  readonly log: Log
  readonly intervals?: Partial<Intervals> | undefined
  /** @default those of this release */
  readonly migrations?: readonly Migration[] | undefined
}

/**
 * Resolves when Postgres answered, or after a short timeout: then the store keeps trying, and
 * rejects requests meanwhile. Rejects only if local files cannot be read.
 */
export async function openPostgresStore(
  config: DatabaseConfig,
  { log, intervals, migrations }: PostgresStoreOptions,
): Promise<RuleStore> {
  const store = new PostgresRuleStore({
    database: new Database(await prepareConnection(config)),
    log,
    intervals: { ...INTERVALS, ...intervals },
    migrations: migrations ?? MIGRATIONS,
  })
  await store.start()
  return store
}

interface PostgresStoreDeps {
  readonly database: Database
  readonly log: Log
  readonly intervals: Intervals
  readonly migrations: readonly Migration[]
}

class PostgresRuleStore implements RuleStore {
  readonly name: string
  readonly #deps: PostgresStoreDeps
  readonly #listener: VersionListener
  readonly #listeners = new Set<() => void>()
  readonly #closing = new AbortController()
  #running: Promise<unknown> = Promise.resolve()
  #closed: Promise<void> | undefined
  /** Whether the tables are those of this release. */
  #isReady = false
  #problem: string | undefined
  /** The version that listeners were last notified of, and its mark if a poll has read it. */
  #lastVersion: { readonly version: number; readonly mark: string | undefined } | undefined
  /** The last commit of this node: commits are made in the order in which they arrived. */
  #lastCommit: Promise<unknown> = Promise.resolve()
  #commitsWaiting = 0

  constructor(deps: PostgresStoreDeps) {
    this.#deps = deps
    this.name = deps.database.name
    this.#listener = new VersionListener({
      ...deps,
      onChange: (version) => this.onVersion(version),
    })
  }

  /** Resolves after the first attempt to connect, or a timeout. */
  async start(): Promise<void> {
    const first = new Promise<void>((resolve) => {
      this.#running = this.run(resolve)
    })
    const late = new AbortController()
    await Promise.race([first, pause(OPEN_MS_MAX, late.signal)])
    late.abort()
  }

  async *read(since: Position | undefined): AsyncIterable<RecordChunk> {
    yield* readChunks(this.readyDatabase(), since)
  }

  async commit(commit: Commit): Promise<Position> {
    return this.inOrder(() => commitChanges(this.readyDatabase(), commit))
  }

  async history(query: HistoryQuery): Promise<readonly PastVersion[]> {
    return readHistory(this.readyDatabase(), query)
  }

  async *changesAfter(version: number, rule?: string): AsyncIterable<PastChange> {
    yield* readChangesAfter(this.readyDatabase(), version, rule)
  }

  async keys(query: KeysQuery): Promise<readonly StoredKey[]> {
    return readKeys(this.readyDatabase(), query)
  }

  async key(id: string): Promise<StoredKey | undefined> {
    return readKey(this.readyDatabase(), id)
  }

  async adopt(above: number, by: string, why: string | undefined): Promise<Position> {
    return this.inOrder(() => adoptStore(this.readyDatabase(), above, { by, why }))
  }

  async report(node: NodeReport): Promise<void> {
    await reportNode(this.readyDatabase(), node)
  }

  async nodes(): Promise<readonly LiveNode[]> {
    return readNodes(this.readyDatabase())
  }

  onChange(listener: () => void): () => void {
    // A function of its own, since the same listener may subscribe twice.
    const own = () => listener()
    this.#listeners.add(own)
    return () => this.#listeners.delete(own)
  }

  status(): StoreStatus {
    const { database } = this.#deps
    const isConnected = this.#isReady && database.isConnected
    const news = this.#listener.isListening ? 'push' : isConnected ? 'poll' : 'none'
    const problem = this.#isReady ? database.problem : (this.#problem ?? database.problem)
    return { isConnected, news, problem: problem ?? this.#listener.problem }
  }

  close(): Promise<void> {
    this.#closed ??= this.shutDown()
    return this.#closed
  }

  private async shutDown(): Promise<void> {
    this.#closing.abort()
    this.#listeners.clear()
    await this.#running
    await this.#deps.database.close()
  }

  private readyDatabase(): Database {
    const { database } = this.#deps
    if (this.#closing.signal.aborted) throw new UnavailableError(`${this.name}: closed`)
    if (this.#isReady) return database
    throw new UnavailableError(this.#problem ?? `${this.name}: not reached yet`)
  }

  private async inOrder<T>(work: () => Promise<T>): Promise<T> {
    if (this.#commitsWaiting >= COMMITS_WAITING_MAX) {
      throw new UnavailableError(`${this.name}: ${COMMITS_WAITING_MAX} commits wait already`)
    }
    this.#commitsWaiting++
    const sinceMs = monotonicMs()
    const made = this.#lastCommit.then(() => {
      if (monotonicMs() - sinceMs < COMMIT_TURN_MS_MAX) return work()
      throw new UnavailableError(`${this.name}: busy with earlier commits; this one was not made`)
    })
    this.#lastCommit = made.catch(() => undefined)
    try {
      return await made
    } finally {
      this.#commitsWaiting--
    }
  }

  private async run(onAttempt: () => void): Promise<void> {
    const { signal } = this.#closing
    await this.prepare(onAttempt)
    if (signal.aborted) return
    await Promise.all([this.#listener.run(signal), this.poll()])
  }

  /** Resolves when the tables are ready, or the store is closed. */
  private async prepare(onAttempt: () => void): Promise<void> {
    const { database, migrations, intervals, log } = this.#deps
    const { signal } = this.#closing
    for (let failures = 0; !signal.aborted; failures++) {
      try {
        const ran = await migrate(database, migrations)
        if (ran.length > 0) log.info({ store: this.name, migrations: ran }, 'rule store migrated')
        if ((await this.readState()) === undefined) {
          const found = 'found no row in sluice.state; accepted: one, as a backup has it'
          throw new UnavailableError(`${this.name}: ${found}`)
        }
        this.#isReady = true
        this.setProblem(undefined)
        onAttempt()
        return
      } catch (error) {
        this.setProblem(messageOf(error))
        onAttempt()
        await pause(retryMs(intervals, failures), signal)
      }
    }
  }

  /** Polls the version: a safety net beside the listener, and the only way without one. */
  private async poll(): Promise<void> {
    const { pollMs, pollAloneMs } = this.#deps.intervals
    const { signal } = this.#closing
    while (!signal.aborted) {
      await pause(this.#listener.isListening ? pollMs : pollAloneMs, signal)
      if (signal.aborted) return
      try {
        const state = await this.readState()
        if (state !== undefined) {
          this.setProblem(undefined)
          this.compare(Number(state.version), state.mark)
          continue
        }
      } catch (error) {
        this.setProblem(messageOf(error))
        if (!(error instanceof Error) || !isSchemaMissing(error.cause)) continue
      }
      // The database was created again: nodes see another store, and report that it diverged.
      this.#isReady = false
      await this.prepare(() => undefined)
    }
  }

  /** Resolves to undefined if the tables exist, but the state row is missing. */
  private async readState(): Promise<
    { readonly version: string; readonly mark: string } | undefined
  > {
    const { database, intervals } = this.#deps
    const [row] = await database.query<{ version: string; mark: string }>(
      'select version, mark from sluice.state',
      [],
      intervals.pollWithinMs,
    )
    return row
  }

  private compare(version: number, mark: string): void {
    const lastVersion = this.#lastVersion
    const isKnown = lastVersion?.version === version && (lastVersion.mark ?? mark) === mark
    this.#lastVersion = { version, mark }
    if (!isKnown) this.notify()
  }

  private onVersion(version: number | undefined): void {
    if (version !== undefined) this.#lastVersion = { version, mark: undefined }
    this.notify()
  }

  private notify(): void {
    for (const listener of this.#listeners) listener()
  }

  /** Logs when a problem begins, changes or is over. */
  private setProblem(problem: string | undefined): void {
    if (problem === this.#problem) return
    const { log } = this.#deps
    if (problem === undefined) log.info({ store: this.name }, 'rule store available')
    else log.error({ store: this.name, problem }, 'rule store unavailable')
    this.#problem = problem
  }
}

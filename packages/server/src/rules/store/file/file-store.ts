/**
 * The rule store in a folder, for one node: a journal of versions that are durable before a commit
 * resolves, and `rules.yaml` with the present rules for reading. While the folder cannot be
 * written, the journal is served read-only.
 */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { WallClock } from '../../../lib/wall-clock.js'
import type { Log } from '../../../observability/log/logger.js'
import { messageOf } from '../../../lib/message-of.js'
import { systemScheduler, type Scheduler } from '../../../lib/scheduler.js'
import { changesOf, pastVersion } from '../version-entry.js'
import { LiveNodes } from '../live-nodes.js'
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
import { CommitQueue, type MakeEntry } from './commit-queue.js'
import { DEFAULT_HISTORY, type HistoryOptions } from './compaction.js'
import { codeOf, type FileSystem, isUnwritable, realFileSystem, reasonOf } from './fs.js'
import { type ProcessContext, processContext as realSurroundings } from './lock-owner.js'
import type { Journal } from './journal.js'
import { JournalCompactor } from './journal-compactor.js'
import {
  type FolderDeps,
  journalStamp,
  openToRead,
  openToWrite,
  type FolderContents,
  type ReadOnlyFolder,
  type WritableFolder,
} from './open-folder.js'

export interface FileStoreOptions {
  readonly folder: string
  readonly clock: WallClock
  readonly log?: Log | undefined
  /** The release of Sluice, named in the lock file. */
  readonly release: string
  /** Which versions of the history are kept. @default the newest 10,000 */
  readonly history?: HistoryOptions | undefined
  /** Bytes that a compaction has to free. @default 1 MiB */
  readonly garbageBytesMin?: number | undefined
  /** @default the real one */
  readonly fs?: FileSystem | undefined
  /** @default that of this process */
  readonly processContext?: ProcessContext | undefined
  /** @default by a timer */
  readonly wait?: ((ms: number) => Promise<unknown>) | undefined
  /** For retries of a folder that cannot be written. @default the system's */
  readonly scheduler?: Scheduler | undefined
}

/** Keys scanned before other work gets a turn of the event loop. */
const KEYS_PER_TURN = 20_000
/** Until a folder that cannot be written is tried again; doubled after each failure. */
const RETRY_MS_FIRST = 1000
const RETRY_MS_MAX = 15_000

/**
 * Opens the folder, read-only and without its lock if it has a journal but cannot be written.
 * Rejects if another process uses the folder, or if its journal is damaged.
 */
export async function openFileStore(options: FileStoreOptions): Promise<RuleStore> {
  const { folder, clock, log, release, fs = realFileSystem, wait = sleep } = options
  const { processContext = realSurroundings(release) } = options
  const deps: FolderDeps = { folder, clock, log, fs, wait, processContext }
  try {
    return new FileStore(options, deps, await openToWrite(deps))
  } catch (error) {
    if (codeOf(error) === undefined) throw error
    const read = isUnwritable(error) ? await openToRead(deps).catch(rethrowDamage) : undefined
    if (read !== undefined) return new FileStore(options, deps, read, error)
    const found = `${folder}: cannot be used: ${messageOf(error)}`
    const accepted = 'a folder that this process may write to, with all that is in it'
    throw new Error(`${found}; accepted: ${accepted}. SLUICE_DATA_DIR says where it is`, {
      cause: error,
    })
  }
}

/** Errors of the file system are handled by the caller; damage of the journal is rethrown. */
function rethrowDamage(error: unknown): undefined {
  if (codeOf(error) === undefined) throw error
}

interface Writer {
  readonly folder: WritableFolder
  readonly queue: CommitQueue
  readonly compactor: JournalCompactor
}

class FileStore implements RuleStore {
  readonly name: string
  readonly #options: FileStoreOptions
  readonly #deps: FolderDeps
  readonly #scheduler: Scheduler
  readonly #nodes = new LiveNodes()
  readonly #listeners = new Set<() => void>()
  #read: FolderContents
  /** Undefined while the folder cannot be written. */
  #writer: Writer | undefined
  /** Why the folder cannot be written. */
  #reason: string | undefined
  /** Stamp of the journal that was read; undefined while this process holds the lock. */
  #stamp: string | undefined
  #retryMs = RETRY_MS_FIRST
  #cancelRetry = () => {}
  readonly #ending = new AbortController()
  #retrying: Promise<void> = Promise.resolve()
  #closing: Promise<void> | undefined

  constructor(
    options: FileStoreOptions,
    deps: FolderDeps,
    opened: ReadOnlyFolder | WritableFolder,
    error?: unknown,
  ) {
    this.name = `files in ${deps.folder}`
    this.#options = options
    this.#deps = deps
    this.#scheduler = options.scheduler ?? systemScheduler
    this.#read = opened
    if ('lock' in opened) this.startWriting(opened)
    else {
      this.#stamp = opened.stamp
      this.stayReadOnly(error)
      this.retryLater()
    }
  }

  async *read(since: Position | undefined): AsyncIterable<RecordChunk> {
    for (const chunk of this.#read.table.read(since)) {
      yield chunk
      await nextTurn()
    }
  }

  commit(commit: Commit): Promise<Position> {
    return this.add((draft, at) => draft.add(commit, at))
  }

  adopt(above: number, by: string, why: string | undefined): Promise<Position> {
    return this.add((draft, at) => draft.adopt(above, by, why, at))
  }

  async history({ rule, before = Infinity, limit }: HistoryQuery): Promise<readonly PastVersion[]> {
    const { journal } = this.#read
    const release = journal.retain()
    try {
      const found: PastVersion[] = []
      for (const line of journal.linesBelow(before, rule)) {
        if (found.length >= limit) break
        found.push(pastVersion(await journal.read(line), rule))
      }
      return found
    } finally {
      release()
    }
  }

  async *changesAfter(version: number, rule?: string): AsyncIterable<PastChange> {
    const { table, journal } = this.#read
    const { keptSince = 0 } = journal
    if (!table.hasVersion(version) || version < keptSince) {
      const kept = keptSince > 0 ? `; versions are kept since ${keptSince}` : ''
      const last = table.position.version
      throw new RangeError(`there is no version ${version}${kept}; the last one is ${last}`)
    }
    const release = journal.retain()
    try {
      for (const line of journal.linesBelow(Infinity, rule)) {
        if (journal.versionOf(line) <= version) return
        yield* changesOf(await journal.read(line), rule).toReversed()
      }
    } finally {
      release()
    }
  }

  async keys({ after, user, limit }: KeysQuery): Promise<readonly StoredKey[]> {
    const { table } = this.#read
    if (user === undefined) return table.keysAfter(after, limit)
    const ids: string[] = []
    let scanned = 0
    for (const { id, body } of table.keys()) {
      if (body?.user === user && (after === undefined || id > after)) ids.push(id)
      if (++scanned % KEYS_PER_TURN === 0) await nextTurn()
    }
    const found = ids.toSorted().flatMap((id) => table.key(id) ?? [])
    return found.filter(({ body }) => body?.user === user).slice(0, limit)
  }

  key(id: string): Promise<StoredKey | undefined> {
    return Promise.resolve(this.#read.table.key(id))
  }

  report(node: NodeReport): Promise<void> {
    this.#nodes.add(node, this.#deps.clock.now())
    return Promise.resolve()
  }

  nodes(): Promise<readonly LiveNode[]> {
    return Promise.resolve(this.#nodes.list(this.#deps.clock.now()))
  }

  onChange(listener: () => void): () => void {
    const own = () => listener()
    this.#listeners.add(own)
    return () => void this.#listeners.delete(own)
  }

  status(): StoreStatus {
    const failure = this.#writer?.queue.failure
    // A process that lost the lock may serve outdated rules.
    const lost = this.#writer?.folder.lock.problem
    const failed = failure === undefined ? undefined : messageOf(failure)
    return {
      isConnected: this.#closing === undefined && lost === undefined,
      news: 'push',
      problem: lost ?? this.readOnlyProblem() ?? failed,
      isReadOnly: this.#writer === undefined,
      keptSince: this.#read.journal.keptSince,
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.shutDown()
    return this.#closing
  }

  private add(make: MakeEntry): Promise<Position> {
    if (this.#writer !== undefined) return this.#writer.queue.add(make)
    const problem = this.readOnlyProblem() ?? 'the rule store is closed'
    return Promise.reject(new UnavailableError(problem))
  }

  private readOnlyProblem(): string | undefined {
    if (this.#reason === undefined) return undefined
    const { folder } = this.#deps
    return `${folder}: opened read-only, rules are served but cannot be changed: ${this.#reason}`
  }

  private startWriting(folder: WritableFolder): void {
    const { table, journal, view, file, lock } = folder
    this.#read = { table, view, journal }
    const queue = new CommitQueue({
      table,
      journal: () => this.#read.journal,
      lock,
      clock: this.#deps.clock,
      onEntries: (entries) => {
        const before = view.version
        for (const entry of entries) view.apply(entry)
        if (view.version !== before) file.scheduleWrite()
        this.notify()
        compactor.compactIfDue()
      },
    })
    const { log, clock, fs, folder: path } = this.#deps
    const { history = DEFAULT_HISTORY, garbageBytesMin } = this.#options
    const compactor = new JournalCompactor({
      fs,
      folder: path,
      table,
      lock,
      queue,
      log,
      clock,
      history,
      garbageBytesMin,
      journal: () => this.#read.journal,
      replace: (next) => this.replaceJournal(next),
    })
    this.#writer = { folder, queue, compactor }
    this.#reason = undefined
    compactor.compactIfDue()
  }

  private replaceJournal(next: Journal): void {
    const { journal } = this.#read
    this.#read = { ...this.#read, journal: next }
    void journal.retire()
  }

  private notify(): void {
    for (const listener of this.#listeners) queueMicrotask(listener)
  }

  /** Logs the reason when it changes. */
  private stayReadOnly(error: unknown): void {
    const reason = codeOf(error) === undefined ? messageOf(error) : reasonOf(error)
    const { folder, log } = this.#deps
    if (reason !== this.#reason) {
      const what = 'rule store: opened read-only; rules are served, changes are refused'
      log?.warn({ folder, reason }, what)
    }
    this.#reason = reason
  }

  private retryLater(): void {
    this.#cancelRetry = this.#scheduler.after(this.#retryMs, () => {
      this.#retrying = this.retry()
    })
    this.#retryMs = Math.min(2 * this.#retryMs, RETRY_MS_MAX)
  }

  /** Reads everything again: without the lock, another process may have written. */
  private async retry(): Promise<void> {
    const { folder, log } = this.#deps
    try {
      const wait = (ms: number) => this.waitUnlessClosed(ms)
      const opened = await openToWrite({ ...this.#deps, wait }, { isRetry: true })
      const { journal } = this.#read
      this.startWriting(opened)
      await journal.retire()
      log?.info({ folder }, 'rule store: writable again')
      this.notify()
    } catch (error) {
      if (this.#ending.signal.aborted) return
      this.stayReadOnly(error)
      await this.readAgain()
      if (this.#closing === undefined) this.retryLater()
    }
  }

  /** Rejects when the store is closed, so that a lock whose owner may be alive is not taken. */
  private async waitUnlessClosed(ms: number): Promise<void> {
    const { signal } = this.#ending
    let stop = () => {}
    const closed = new Promise<void>((resolve) => (stop = resolve))
    signal.addEventListener('abort', stop, { once: true })
    await Promise.race([this.#deps.wait(ms), closed])
    signal.removeEventListener('abort', stop)
    signal.throwIfAborted()
  }

  /** Reads the journal again if another process changed it. */
  private async readAgain(): Promise<void> {
    const { journal } = this.#read
    try {
      if ((await journalStamp(this.#deps)) === this.#stamp) return
      const read = await openToRead(this.#deps)
      this.#read = read
      this.#stamp = read.stamp
      await journal.retire()
      this.notify()
    } catch (error) {
      this.stayReadOnly(error)
    }
  }

  private async shutDown(): Promise<void> {
    this.#cancelRetry()
    this.#ending.abort()
    await this.#retrying
    this.#listeners.clear()
    if (this.#writer !== undefined) await this.stopWriting(this.#writer)
    else await this.#read.journal.close()
  }

  private async stopWriting({ folder: { lock, file }, queue, compactor }: Writer): Promise<void> {
    await compactor.close()
    await queue.close()
    await file.close()
    await this.#read.journal.close()
    await lock.release().catch(() => lock.abandon())
  }
}

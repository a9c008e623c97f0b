/**
 * The rule store in files, for one node: a journal of versions that is safe before anybody is told,
 * and the present rules beside it for people to read.
 */
import { dirname } from 'node:path'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { WallClock } from '../../clock.js'
import type { Log } from '../../log/logger.js'
import { messageOf } from '../../message-of.js'
import { changesOf, pastVersion } from '../entry.js'
import { Ledger } from '../ledger.js'
import { NodeList } from '../node-list.js'
import type {
  Chunk,
  Commit,
  HistoryQuery,
  KeysQuery,
  NodeReport,
  NodeSeen,
  PastChange,
  PastVersion,
  Position,
  RuleStore,
  StoreStatus,
} from '../rule-store.js'
import { codeOf, type Disk, FOLDER_MODE, realDisk, reasonOf, syncFolder } from './disk.js'
import { type Surroundings, surroundings as realSurroundings } from './holder.js'
import type { Journal } from './journal.js'
import { FolderLock } from './lock.js'
import { openJournal } from './open-journal.js'
import { RulesFile } from './rules-file.js'
import { RulesView } from './rules-view.js'
import { CommitQueue } from './commit-queue.js'

export interface FileStoreOptions {
  readonly folder: string
  readonly clock: WallClock
  readonly log?: Log | undefined
  /** Of Sluice: told to whoever finds the folder locked. */
  readonly release: string
  /** @default the real one */
  readonly disk?: Disk | undefined
  /** @default those of this process */
  readonly surroundings?: Surroundings | undefined
  /** @default by a timer */
  readonly wait?: ((ms: number) => Promise<unknown>) | undefined
}

/** Keys looked at before other things get their turn. */
const KEYS_PER_TURN = 20_000

type StoredKey = Awaited<ReturnType<RuleStore['keys']>>[number]

/** Rejects with a message for people if the folder is in use, or its journal damaged. */
export async function openFileStore(options: FileStoreOptions): Promise<RuleStore> {
  try {
    return await open(options)
  } catch (error) {
    if (codeOf(error) === undefined) throw error
    const found = `${options.folder}: cannot be used: ${messageOf(error)}`
    const accepted = 'a folder that this process may write to, with all that is in it'
    throw new Error(`${found}; accepted: ${accepted}. SLUICE_DATA_DIR says where it is`, {
      cause: error,
    })
  }
}

async function open(options: FileStoreOptions): Promise<RuleStore> {
  const { folder, clock, log, release, disk = realDisk, wait = sleep } = options
  const { surroundings = realSurroundings(release) } = options
  await disk.mkdir(folder)
  await syncFolder(disk, dirname(folder))
  await keepToOneself(disk, folder, log)
  const onWaiting = (message: string) => log?.info({ folder }, message)
  const lock = await FolderLock.take({ folder, disk, surroundings, wait, onWaiting })
  try {
    const ledger = new Ledger()
    const view = new RulesView(ledger)
    const journal = await openJournal({
      disk,
      folder,
      holder: lock.number,
      nowMs: clock.now(),
      log,
      problemOf: (entry) => ledger.problemOf(entry),
      apply: (entry) => {
        ledger.apply(entry)
        view.apply(entry)
      },
    })
    ledger.begin()
    const file = new RulesFile({
      disk,
      folder,
      log,
      present: () => view.present(),
      version: () => view.version,
      lostBecause: () => lock.lostBecause(),
    })
    await file.repair()
    return new FileStore({ folder, clock, ledger, view, journal, lock, file })
  } catch (error) {
    await lock.release().catch(() => lock.abandon())
    throw error
  }
}

/** It holds the secret of key hashes. */
async function keepToOneself(disk: Disk, folder: string, log: Log | undefined): Promise<void> {
  const { mode } = await disk.stat(folder)
  if ((mode & 0o077) === 0) return
  try {
    await disk.chmod(folder, FOLDER_MODE)
  } catch (error) {
    // Its files are closed to others all the same.
    log?.warn({ folder, error: reasonOf(error) }, 'others may look into this folder; chmod 700 it')
  }
}

interface FileStoreParts {
  readonly folder: string
  readonly clock: WallClock
  readonly ledger: Ledger
  readonly view: RulesView
  readonly journal: Journal
  readonly lock: FolderLock
  readonly file: RulesFile
}

class FileStore implements RuleStore {
  readonly name: string
  readonly #parts: FileStoreParts
  readonly #queue: CommitQueue
  readonly #nodes = new NodeList()
  readonly #listeners = new Set<() => void>()
  #closing: Promise<void> | undefined

  constructor(parts: FileStoreParts) {
    const { folder, ledger, journal, lock, clock } = parts
    this.name = `files in ${folder}`
    this.#parts = parts
    this.#queue = new CommitQueue({
      ledger,
      journal,
      lock,
      clock,
      onEntries: (entries) => {
        const { view, file } = this.#parts
        const before = view.version
        for (const entry of entries) view.apply(entry)
        if (view.version !== before) file.changed()
        for (const listener of this.#listeners) queueMicrotask(listener)
      },
    })
  }

  async *read(since: Position | undefined): AsyncIterable<Chunk> {
    for (const chunk of this.#parts.ledger.read(since)) {
      yield chunk
      await nextTurn()
    }
  }

  commit(commit: Commit): Promise<Position> {
    return this.#queue.add((draft, at) => draft.add(commit, at))
  }

  adopt(above: number, by: string, why: string | undefined): Promise<Position> {
    return this.#queue.add((draft, at) => draft.adopt(above, by, why, at))
  }

  async history({ rule, before = Infinity, limit }: HistoryQuery): Promise<readonly PastVersion[]> {
    const { journal } = this.#parts
    const found: PastVersion[] = []
    for (const line of journal.linesBelow(before, rule)) {
      if (found.length >= limit) break
      found.push(pastVersion(await journal.read(line), rule))
    }
    return found
  }

  async *changesAfter(version: number, rule?: string): AsyncIterable<PastChange> {
    const { ledger, journal } = this.#parts
    if (!ledger.hasVersion(version)) {
      const last = ledger.position.version
      throw new RangeError(`there is no version ${version}; the last one is ${last}`)
    }
    for (const line of journal.linesBelow(Infinity, rule)) {
      if (journal.versionOf(line) <= version) return
      yield* changesOf(await journal.read(line), rule).toReversed()
    }
  }

  async keys({ after, user, limit }: KeysQuery): Promise<readonly StoredKey[]> {
    const { ledger } = this.#parts
    if (user === undefined) return ledger.keysAfter(after, limit)
    const ids: string[] = []
    let looked = 0
    for (const { id, body } of ledger.keys()) {
      if (body?.user === user && (after === undefined || id > after)) ids.push(id)
      if (++looked % KEYS_PER_TURN === 0) await nextTurn()
    }
    const found = ids.toSorted().flatMap((id) => ledger.key(id) ?? [])
    return found.filter(({ body }) => body?.user === user).slice(0, limit)
  }

  key(id: string): Promise<StoredKey | undefined> {
    return Promise.resolve(this.#parts.ledger.key(id))
  }

  report(node: NodeReport): Promise<void> {
    this.#nodes.add(node, this.#parts.clock.now())
    return Promise.resolve()
  }

  nodes(): Promise<readonly NodeSeen[]> {
    return Promise.resolve(this.#nodes.list(this.#parts.clock.now()))
  }

  onNews(listener: () => void): () => void {
    const own = () => listener()
    this.#listeners.add(own)
    return () => void this.#listeners.delete(own)
  }

  status(): StoreStatus {
    const failure = this.#queue.failure
    // Whose folder it is no longer may run rules that are old by now.
    const lost = this.#parts.lock.problem
    const problem = lost ?? (failure === undefined ? undefined : messageOf(failure))
    const isConnected = this.#closing === undefined && lost === undefined
    return { isConnected, news: 'push', problem }
  }

  close(): Promise<void> {
    this.#closing ??= this.end()
    return this.#closing
  }

  private async end(): Promise<void> {
    const { journal, lock, file } = this.#parts
    await this.#queue.close()
    this.#listeners.clear()
    await file.close()
    await journal.close()
    await lock.release().catch(() => lock.abandon())
  }
}

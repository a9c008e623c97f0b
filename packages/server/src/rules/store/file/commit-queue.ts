/**
 * Writes commits in the order in which they arrived. Those that arrive during a write are written
 * and synced together (group commit), so that none waits for more than two syncs.
 */
import type { WallClock } from '../../../lib/wall-clock.js'
import { messageOf } from '../../../lib/message-of.js'
import { VersionBuilder } from '../version-builder.js'
import type { VersionEntry } from '../version-entry.js'
import type { RecordTable } from '../record-table.js'
import { type Position, UnavailableError } from '../rule-store.js'
import { encodeLine, LINE_BYTES_MAX } from './journal-line.js'
import type { Journal } from './journal.js'
import type { FolderLock } from './folder-lock.js'

const QUEUED_MAX = 10_000
/** A batch is closed at this size; a single line may be larger. */
const BATCH_BYTES_MAX = 16 * 1024 * 1024

/** Makes the next entry, or throws why it cannot be one. */
export type MakeEntry = (builder: VersionBuilder, at: string) => VersionEntry

interface QueuedCommit {
  readonly make: MakeEntry
  readonly resolve: (position: Position) => void
  readonly reject: (error: unknown) => void
}

/** A batch of commits; its callbacks run when it is durable. */
interface CommitBatch {
  readonly entries: VersionEntry[]
  readonly lines: Buffer[]
  readonly callbacks: (() => void)[]
}

export interface CommitQueueDeps {
  readonly table: RecordTable
  /** Returns the current journal: a compaction replaces it. */
  readonly journal: () => Journal
  readonly lock: FolderLock
  readonly clock: WallClock
  /** Called when entries are durable and in the table. */
  readonly onEntries: (entries: readonly VersionEntry[]) => void
}

export class CommitQueue {
  readonly #deps: CommitQueueDeps
  readonly #pending: QueuedCommit[] = []
  /** Runs before the next batch. */
  #exclusiveTask: (() => Promise<void>) | undefined
  #working: Promise<void> | undefined
  #failure: unknown
  #isClosed = false

  constructor(deps: CommitQueueDeps) {
    this.#deps = deps
  }

  /** Why the last batch failed; undefined: it did not. */
  get failure(): unknown {
    return this.#failure
  }

  add(make: MakeEntry): Promise<Position> {
    return new Promise((resolve, reject) => {
      if (this.#isClosed) {
        reject(new UnavailableError('the rule store is closed'))
      } else if (this.#pending.length >= QUEUED_MAX) {
        reject(new UnavailableError(`${QUEUED_MAX} commits wait for the disk already`))
      } else {
        this.#pending.push({ make, resolve, reject })
        this.#working ??= this.work()
      }
    })
  }

  /** Runs a task while no batch is being written; commits wait until it is done. */
  runExclusive(task: () => Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#isClosed || this.#exclusiveTask !== undefined) {
        reject(new UnavailableError('the rule store is closed, or busy with another such task'))
        return
      }
      this.#exclusiveTask = () => task().then(resolve, reject)
      this.#working ??= this.work()
    })
  }

  /** Commits that were added before are still written. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#working
  }

  private async work(): Promise<void> {
    // Commits that are added in the same turn of the event loop share a batch.
    await Promise.resolve()
    while (this.#pending.length > 0 || this.#exclusiveTask !== undefined) {
      const exclusiveTask = this.#exclusiveTask
      this.#exclusiveTask = undefined
      if (exclusiveTask !== undefined) {
        await exclusiveTask()
        continue
      }
      const commits: QueuedCommit[] = []
      try {
        await this.checkLock()
        const batch = this.prepare(commits)
        if (batch.entries.length > 0) await this.write(batch)
        for (const callback of batch.callbacks) callback()
      } catch (error) {
        this.#failure = error
        if (commits.length === 0) commits.push(...this.#pending.splice(0))
        for (const { reject } of commits) reject(error)
      }
    }
    this.#working = undefined
  }

  private async checkLock(): Promise<void> {
    let lost: string | undefined
    try {
      lost = await this.#deps.lock.lossReason()
    } catch (error) {
      throw new UnavailableError(messageOf(error), { cause: error })
    }
    if (lost !== undefined) throw new UnavailableError(lost)
  }

  /**
   * Rejections wait for the batch too: a conflict with one of its entries needs that entry made.
   */
  private prepare(commits: QueuedCommit[]): CommitBatch {
    const { table, clock } = this.#deps
    const builder = new VersionBuilder(table)
    const batch: CommitBatch = { entries: [], lines: [], callbacks: [] }
    const first = builder.position.version + 1
    let bytes = 0
    while (bytes < BATCH_BYTES_MAX) {
      const pending = this.#pending.shift()
      if (pending === undefined) break
      commits.push(pending)
      const { make, resolve, reject } = pending
      let entry: VersionEntry | undefined
      try {
        entry = make(builder, new Date(clock.now()).toISOString())
        const line = this.lineOf(entry, first)
        bytes += line.length
        batch.entries.push(entry)
        batch.lines.push(line)
        const { position } = builder
        batch.callbacks.push(() => resolve(position))
      } catch (error) {
        batch.callbacks.push(() => reject(error))
        // The builder contains an entry that will not be written: the next batch starts afresh.
        if (entry !== undefined) break
      }
    }
    return batch
  }

  private lineOf(entry: VersionEntry, first: number): Buffer {
    const line = encodeLine({ entry, batch: first, holder: this.#deps.lock.number })
    if (line.length <= LINE_BYTES_MAX) return line
    const found = `found a commit of ${line.length} bytes`
    throw new RangeError(`${found}; accepted: at most ${LINE_BYTES_MAX}`)
  }

  private async write({ entries, lines }: CommitBatch): Promise<void> {
    const { table, lock, onEntries } = this.#deps
    const journal = this.#deps.journal()
    const spans = await journal.append(lines)
    // If this process was suspended, another may have taken the lock: then its lines do not count.
    const lost = await lock.lossReason().catch(() => undefined)
    if (lost !== undefined) throw new UnavailableError(lost, { isUncertain: true })
    for (const [index, entry] of entries.entries()) {
      const span = spans[index]
      if (span === undefined) continue
      table.apply(entry)
      journal.add(entry, span)
    }
    this.#failure = undefined
    onEntries(entries)
  }
}

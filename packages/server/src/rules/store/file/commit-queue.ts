/**
 * Commits in the order in which they came. Those that came while others were being made safe are
 * made safe together, so that none waits for more than two of the disk's turns.
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
/** Of one batch; a single line may be more. */
const BATCH_BYTES_MAX = 16 * 1024 * 1024

/** Makes the next entry, or throws why it cannot be one. */
export type MakeEntry = (builder: VersionBuilder, at: string) => VersionEntry

interface QueuedCommit {
  readonly make: MakeEntry
  readonly resolve: (position: Position) => void
  readonly reject: (error: unknown) => void
}

/** What a batch comes to, told when it is safe. */
interface CommitBatch {
  readonly entries: VersionEntry[]
  readonly lines: Buffer[]
  readonly callbacks: (() => void)[]
}

export interface CommitQueueDeps {
  readonly table: RecordTable
  /** The present one: a compaction puts another in its place. */
  readonly journal: () => Journal
  readonly lock: FolderLock
  readonly clock: WallClock
  /** They are safe, and in the ledger. */
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

  /** Why the last batch could not be written; undefined: it could. */
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

  /** Runs a task while no batch is being written; those that come meanwhile wait for it. */
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

  /** What came before is still done. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#working
  }

  private async work(): Promise<void> {
    // Those that are sent in the same turn belong together.
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

  /** Nobody is told anything yet: who lost to an entry of this batch lost only if that is made. */
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
        // The draft counts on an entry that will not be: what comes next begins anew.
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
    // A process that stood still meanwhile may have been given up, and its lines count no more.
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

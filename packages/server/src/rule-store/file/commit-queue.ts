/**
 * Commits in the order in which they came. Those that came while others were being made safe are
 * made safe together, so that none waits for more than two of the disk's turns.
 */
import type { WallClock } from '../../clock.js'
import { messageOf } from '../../message-of.js'
import { Draft } from '../draft.js'
import type { Entry } from '../entry.js'
import type { Ledger } from '../ledger.js'
import { type Position, UnavailableError } from '../rule-store.js'
import { encodeLine, LINE_BYTES_MAX } from './journal-line.js'
import type { Journal } from './journal.js'
import type { FolderLock } from './lock.js'

const WAITING_MAX = 10_000
/** Of one batch; a single line may be more. */
const BATCH_BYTES_MAX = 16 * 1024 * 1024

/** Makes the next entry, or throws why it cannot be one. */
export type MakeEntry = (draft: Draft, at: string) => Entry

interface Waiting {
  readonly make: MakeEntry
  readonly resolve: (position: Position) => void
  readonly reject: (error: unknown) => void
}

/** What a batch comes to, told when it is safe. */
interface Batch {
  readonly entries: Entry[]
  readonly lines: Buffer[]
  readonly tell: (() => void)[]
}

export interface CommitQueueParts {
  readonly ledger: Ledger
  /** The present one: a compaction puts another in its place. */
  readonly journal: () => Journal
  readonly lock: FolderLock
  readonly clock: WallClock
  /** They are safe, and in the ledger. */
  readonly onEntries: (entries: readonly Entry[]) => void
}

export class CommitQueue {
  readonly #parts: CommitQueueParts
  readonly #waiting: Waiting[] = []
  /** Runs before the next batch. */
  #alone: (() => Promise<void>) | undefined
  #working: Promise<void> | undefined
  #failure: unknown
  #isClosed = false

  constructor(parts: CommitQueueParts) {
    this.#parts = parts
  }

  /** Why the last batch could not be written; undefined: it could. */
  get failure(): unknown {
    return this.#failure
  }

  add(make: MakeEntry): Promise<Position> {
    return new Promise((resolve, reject) => {
      if (this.#isClosed) {
        reject(new UnavailableError('the rule store is closed'))
      } else if (this.#waiting.length >= WAITING_MAX) {
        reject(new UnavailableError(`${WAITING_MAX} commits wait for the disk already`))
      } else {
        this.#waiting.push({ make, resolve, reject })
        this.#working ??= this.work()
      }
    })
  }

  /** Runs a task while no batch is being written; those that come meanwhile wait for it. */
  runAlone(task: () => Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#isClosed || this.#alone !== undefined) {
        reject(new UnavailableError('the rule store is closed, or busy with another such task'))
        return
      }
      this.#alone = () => task().then(resolve, reject)
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
    while (this.#waiting.length > 0 || this.#alone !== undefined) {
      const alone = this.#alone
      this.#alone = undefined
      if (alone !== undefined) {
        await alone()
        continue
      }
      const taken: Waiting[] = []
      try {
        await this.checkLock()
        const batch = this.prepare(taken)
        if (batch.entries.length > 0) await this.write(batch)
        for (const tell of batch.tell) tell()
      } catch (error) {
        this.#failure = error
        if (taken.length === 0) taken.push(...this.#waiting.splice(0))
        for (const { reject } of taken) reject(error)
      }
    }
    this.#working = undefined
  }

  private async checkLock(): Promise<void> {
    let lost: string | undefined
    try {
      lost = await this.#parts.lock.lostBecause()
    } catch (error) {
      throw new UnavailableError(messageOf(error), { cause: error })
    }
    if (lost !== undefined) throw new UnavailableError(lost)
  }

  /** Nobody is told anything yet: who lost to an entry of this batch lost only if that is made. */
  private prepare(taken: Waiting[]): Batch {
    const { ledger, clock } = this.#parts
    const draft = new Draft(ledger)
    const batch: Batch = { entries: [], lines: [], tell: [] }
    const first = draft.position.version + 1
    let bytes = 0
    while (bytes < BATCH_BYTES_MAX) {
      const waiting = this.#waiting.shift()
      if (waiting === undefined) break
      taken.push(waiting)
      const { make, resolve, reject } = waiting
      let entry: Entry | undefined
      try {
        entry = make(draft, new Date(clock.now()).toISOString())
        const line = this.lineOf(entry, first)
        bytes += line.length
        batch.entries.push(entry)
        batch.lines.push(line)
        const { position } = draft
        batch.tell.push(() => resolve(position))
      } catch (error) {
        batch.tell.push(() => reject(error))
        // The draft counts on an entry that will not be: what comes next begins anew.
        if (entry !== undefined) break
      }
    }
    return batch
  }

  private lineOf(entry: Entry, first: number): Buffer {
    const line = encodeLine({ entry, batch: first, holder: this.#parts.lock.number })
    if (line.length <= LINE_BYTES_MAX) return line
    const found = `found a commit of ${line.length} bytes`
    throw new RangeError(`${found}; accepted: at most ${LINE_BYTES_MAX}`)
  }

  private async write({ entries, lines }: Batch): Promise<void> {
    const { ledger, lock, onEntries } = this.#parts
    const journal = this.#parts.journal()
    const spans = await journal.append(lines)
    // A process that stood still meanwhile may have been given up, and its lines count no more.
    const lost = await lock.lostBecause().catch(() => undefined)
    if (lost !== undefined) throw new UnavailableError(lost, { isUncertain: true })
    for (const [index, entry] of entries.entries()) {
      const span = spans[index]
      if (span === undefined) continue
      ledger.apply(entry)
      journal.add(entry, span)
    }
    this.#failure = undefined
    onEntries(entries)
  }
}

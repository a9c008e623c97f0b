/**
 * Compacts a journal: writes a base in place of the lines that are no longer kept, then the other
 * lines unchanged. The new file is written while commits go on; they wait only for the last lines,
 * the sync and the rename. A crash at any moment leaves the old journal or the new one, complete.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { recordKey } from '../check-commit.js'
import type { RecordTable, BasePosition } from '../record-table.js'
import type { StoredRecord } from '../records.js'
import { UnavailableError } from '../rule-store.js'
import type { CommitQueue } from './commit-queue.js'
import {
  type FileSystem,
  type OpenFile,
  FILE_MODE,
  readFrom,
  removeIfExists,
  writeAll,
} from './fs.js'
import { decodeLine, encodeBase, splitLines } from './journal-line.js'
import type { Journal } from './journal.js'
import type { FolderLock } from './folder-lock.js'
import { journalDraft } from './open-journal.js'

/** Which versions of the history are kept. */
export interface HistoryOptions {
  /** How many of the newest versions are kept. */
  readonly versions: number
  /** Older versions are dropped, except the newest hundred; undefined: no maximum age. */
  readonly ageMs?: number | undefined
}

export const DEFAULT_HISTORY: HistoryOptions = { versions: 10_000 }

/** Kept whatever their age, so that a change of last year can still be undone. */
const VERSIONS_KEPT_MIN = 100
/** A journal is compacted only if it frees this many bytes, and this share of the file. */
const GARBAGE_BYTES_MIN = 1024 * 1024
const GARBAGE_SHARE_MIN = 0.5

/** At most this much is copied while commits wait. */
const TAIL_BYTES = 64 * 1024
const LINES_PER_TURN = 500

/**
 * Returns the first line to keep if compaction is due; else undefined. Ages count only if `nowMs`
 * is given, because the times of lines have to be read from disk.
 */
export async function findFirstKept(
  journal: Journal,
  { versions, ageMs }: HistoryOptions,
  {
    nowMs,
    bytesMin = GARBAGE_BYTES_MIN,
  }: { readonly nowMs?: number | undefined; readonly bytesMin?: number | undefined },
): Promise<number | undefined> {
  const { lineCount, length, baseBytes } = journal
  let first = Math.max(0, lineCount - versions)
  if (ageMs !== undefined && nowMs !== undefined) {
    const young = await firstSince(journal, nowMs - ageMs)
    first = Math.max(first, Math.min(young, lineCount - VERSIONS_KEPT_MIN))
  }
  // 0: every line is kept.
  if (first <= 0) return undefined
  const garbage = journal.offsetOf(first) - baseBytes
  return garbage >= Math.max(bytesMin, length * GARBAGE_SHARE_MIN) ? first : undefined
}

/** Returns the first line that is not older, by binary search: lines are in the order of time. */
async function firstSince(journal: Journal, sinceMs: number): Promise<number> {
  let low = 0
  let high = journal.lineCount
  while (low < high) {
    const middle = (low + high) >> 1
    if (Date.parse((await journal.read(middle)).at) < sinceMs) low = middle + 1
    else high = middle
  }
  return low
}

export interface CompactionDeps {
  readonly fs: FileSystem
  readonly folder: string
  readonly table: RecordTable
  readonly lock: FolderLock
  readonly queue: Pick<CommitQueue, 'runExclusive'>
  /** Cancels it: a process that stops does not wait for it. */
  readonly signal: AbortSignal
  /** Called while no commit is in progress; afterwards the old journal is no longer used. */
  readonly replace: (next: Journal) => void
}

/** If it rejects, the journal is unchanged. */
export async function compact(
  journal: Journal,
  first: number,
  deps: CompactionDeps,
): Promise<void> {
  const { fs, folder, lock, queue } = deps
  const draft = journalDraft(folder, lock.number)
  const file = await fs.open(draft, 'w', FILE_MODE)
  try {
    // Checked after the draft exists: the next owner of the lock removes drafts before it reads.
    await requireLock(lock)
    const writer = new CompactionWriter(journal, first, deps, file)
    await writer.base()
    await writer.lines()
    await queue.runExclusive(async () => {
      await writer.rest()
      await requireLock(lock)
      const { version, bytes } = writer
      const next = await journal.openCompacted(draft, { first, version, bytes })
      try {
        await next.install(draft)
      } catch (error) {
        await next.close()
        throw error
      }
      deps.replace(next)
    })
  } catch (error) {
    await removeIfExists(fs, draft).catch(() => undefined)
    throw error
  } finally {
    await file.close().catch(() => undefined)
  }
}

async function requireLock(lock: FolderLock): Promise<void> {
  const lost = await lock.lossReason()
  if (lost !== undefined) throw new UnavailableError(lost)
}

class CompactionWriter {
  readonly #journal: Journal
  readonly #first: number
  readonly #deps: CompactionDeps
  readonly #file: OpenFile
  /** How far the old file was copied. */
  #copied: number
  /** Version and size of the base. */
  version = 0
  bytes = 0

  constructor(journal: Journal, first: number, deps: CompactionDeps, file: OpenFile) {
    this.#journal = journal
    this.#first = first
    this.#deps = deps
    this.#file = file
    this.#copied = journal.offsetOf(first)
  }

  async base(): Promise<void> {
    const { table, lock } = this.#deps
    const journal = this.#journal
    this.version = journal.versionOf(this.#first - 1)
    const basePosition = table.basePositionAt(this.version)
    if (basePosition === undefined) throw new Error(`version ${this.version} is not known`)
    const { at } = await journal.read(this.#first - 1)
    // Taken together: the present records, and the end of the lines that they include.
    const records = table.allRecords()
    const previous = await this.readPrevious(journal.offsetOf(journal.lineCount))
    const head = { ...headOf(basePosition), at, holder: lock.number }
    for await (const piece of encodeBase(head, recordsAt(records, previous))) {
      this.#deps.signal.throwIfAborted()
      await writeAll(this.#file, piece)
      this.bytes += piece.length
    }
  }

  /** Copies all but the last lines, while commits go on. */
  async lines(): Promise<void> {
    do {
      await this.copy(this.#journal.length)
      await this.#file.sync()
    } while (this.#journal.length - this.#copied > TAIL_BYTES)
  }

  /** Copies the last lines, while commits wait. */
  async rest(): Promise<void> {
    if (this.#journal.length === this.#copied) return
    await this.copy(this.#journal.length)
    await this.#file.sync()
  }

  private async copy(end: number): Promise<void> {
    for await (const piece of readFrom(this.#journal.reader, this.#copied)) {
      this.#deps.signal.throwIfAborted()
      const wanted = piece.subarray(0, end - this.#copied)
      await writeAll(this.#file, wanted)
      this.#copied += wanted.length
      if (this.#copied >= end) return
    }
    if (this.#copied < end) throw new Error(`found the end of the journal at byte ${this.#copied}`)
  }

  /** Returns the body that each record had before the first kept line that changes it. */
  private async readPrevious(end: number): Promise<ReadonlyMap<string, StoredRecord>> {
    const journal = this.#journal
    const previous = new Map<string, StoredRecord>()
    const start = journal.offsetOf(this.#first)
    let line = this.#first
    for await (const { offset, bytes } of splitLines(readFrom(journal.reader, start), start)) {
      if (offset >= end) break
      // Skips lines of processes that had lost the lock.
      if (offset !== journal.offsetOf(line)) continue
      const decoded = decodeLine(bytes)
      if (typeof decoded === 'string') throw new Error(`line at byte ${offset}: ${decoded}`)
      for (const { kind, id, before } of decoded.entry.changes) {
        const key = recordKey(kind, id)
        if (previous.has(key)) continue
        previous.set(key, { kind, id, body: before, version: this.version } as StoredRecord)
      }
      if (++line % LINES_PER_TURN !== 0) continue
      await nextTurn()
      this.#deps.signal.throwIfAborted()
    }
    return previous
  }
}

function headOf({ position, lineageStart, isAdopted }: BasePosition) {
  return { ...position, lineageStart, isAdopted }
}

/** Yields the records as they were before the kept lines. */
function* recordsAt(
  present: readonly StoredRecord[],
  previous: ReadonlyMap<string, StoredRecord>,
): Generator<StoredRecord> {
  for (const one of present) if (!previous.has(recordKey(one.kind, one.id))) yield one
  for (const one of previous.values()) if (one.body !== null) yield one
}

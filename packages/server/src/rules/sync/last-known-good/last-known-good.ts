/**
 * The last known good copy of a remote rule store, from which a node starts while the store is
 * unreachable. It is written after rules were activated, asynchronously and atomically. It holds
 * hashes of keys and tokens and the secret of key hashes, so only its owner may read it.
 */
import { dirname, join } from 'node:path'
import type { Log } from '../../../observability/log/logger.js'
import { messageOf } from '../../../lib/message-of.js'
import {
  codeOf,
  type FileSystem,
  FOLDER_MODE,
  realFileSystem,
  reasonOf,
  removeIfExists,
} from '../../store/file/fs.js'
import type { StoredRecord } from '../../store/records.js'
import type { Position } from '../../store/rule-store.js'
import type { LastGoodVersions } from '../active-rules.js'
import { CopyWriter } from './copy-writer.js'
import { appendBatch, compactCopy, type CopyChunk, type Extent, readCopy } from './copy-file.js'
import type { Ending } from './copy-lines.js'

export interface LastKnownGoodOptions {
  /** The copy is in its folder `last-good`. */
  readonly dataDir: string
  readonly log: Log
  /** Whether this process writes the copy: of the workers of a server, one does. */
  readonly isKeeper: boolean
  /** @default the real one */
  readonly fs?: FileSystem | undefined
}

/** Collects one read of the store for the copy. */
export interface CopyUpdate {
  add(records: readonly StoredRecord[]): Promise<void>
  /** The read is complete: it is written by the next `save`. */
  complete(): void
  /** The read failed: it is dropped. */
  discard(): void
}

export interface LastKnownGood {
  /**
   * Yields the copy as a whole read; nothing if there is none, or if it is damaged, which is
   * logged.
   */
  read(): AsyncIterable<CopyChunk>
  begin(isWhole: boolean): CopyUpdate
  /** Writes the completed reads soon, with the last good versions of invalid records. */
  save(position: Position, standIns: LastGoodVersions): void
  /** Resolves when no write is pending. */
  flush(): Promise<void>
}

const FOLDER = 'last-good'
const FILE = 'records.jsonl'
/** Records that may wait for the disk. Beyond it, the copy waits for the next whole read. */
const PENDING_MAX = 200_000
/** The file is compacted when its changes exceed the first batch, and at least this much. */
const COMPACT_BYTES_MIN = 1024 * 1024
const DISK_MS_MAX = 10_000

export function openLastKnownGood(options: LastKnownGoodOptions): LastKnownGood {
  return new CopyOnDisk(options)
}

/** What was read, but is not on disk yet. */
interface PendingWrite {
  /** The draft of a whole read; undefined: there are only changes. */
  writer: CopyWriter | undefined
  records: StoredRecord[]
}

class CopyOnDisk implements LastKnownGood {
  readonly #path: string
  readonly #log: Log
  readonly #fs: FileSystem
  readonly #isKeeper: boolean
  #pending: PendingWrite = { writer: undefined, records: [] }
  /** The end of the pending batch, once its rules are active. */
  #ending: Ending | undefined
  /** Undefined: there is no copy to append changes to. */
  #extent: Extent | undefined
  #mayCut = true
  #writing: Promise<void> | undefined
  #isPrepared = false

  constructor({ dataDir, log, isKeeper, fs = realFileSystem }: LastKnownGoodOptions) {
    this.#path = join(dataDir, FOLDER, FILE)
    this.#log = log
    this.#fs = fs
    this.#isKeeper = isKeeper
  }

  async *read(): AsyncIterable<CopyChunk> {
    try {
      for await (const chunk of readCopy(this.#fs, this.#path)) {
        // Set before the yield: the caller may stop at the last chunk.
        this.#extent = chunk.extent
        yield chunk
      }
    } catch (error) {
      this.#log.error(
        { file: this.#path, problem: messageOf(error) },
        'last known good rules: file damaged, ignored',
      )
    }
  }

  begin(isWhole: boolean): CopyUpdate {
    if (!this.#isKeeper) return NO_UPDATE
    return isWhole ? this.beginWhole() : this.beginChanges()
  }

  save(position: Position, standIns: LastGoodVersions): void {
    if (!this.#isKeeper) return
    this.#ending = { position, standIns }
    this.#writing ??= this.write().finally(() => {
      this.#writing = undefined
    })
  }

  async flush(): Promise<void> {
    await this.#writing
  }

  private beginChanges(): CopyUpdate {
    const records: StoredRecord[] = []
    return {
      add: async (more) => {
        for (const record of more) records.push(record)
      },
      complete: () => {
        const pending = this.#pending
        if (pending.records.length + records.length <= PENDING_MAX) {
          for (const record of records) pending.records.push(record)
        } else {
          this.giveUp('too many changes wait for the disk')
        }
      },
      discard: () => {},
    }
  }

  private beginWhole(): CopyUpdate {
    let writer: CopyWriter | undefined
    let failure: unknown
    const attempt = async (act: () => Promise<void>) => {
      // A disk that fails or hangs must not stop the read.
      if (failure !== undefined) return
      await withDiskTimeout(act()).catch((error: unknown) => {
        failure = error
      })
    }
    return {
      add: async (records) => {
        await attempt(async () => {
          writer ??= await this.openWriter()
          await writer.writeRecords(records)
        })
      },
      complete: () => {
        if (failure === undefined) {
          void this.#pending.writer?.discard()
          this.#pending = { writer, records: [] }
          return
        }
        void writer?.discard()
        this.giveUp(reasonOf(failure))
      },
      discard: () => void writer?.discard(),
    }
  }

  private async openWriter(): Promise<CopyWriter> {
    if (!this.#isPrepared) await this.prepare()
    this.#isPrepared = true
    return CopyWriter.open(this.#fs, this.#path)
  }

  /** Creates the folder, and removes drafts that interrupted processes left. */
  private async prepare(): Promise<void> {
    const folder = dirname(this.#path)
    await this.#fs.mkdir(folder)
    await this.#fs.chmod(folder, FOLDER_MODE)
    for (const name of await this.#fs.readdir(folder)) {
      if (name.startsWith(`${FILE}.`)) await removeIfExists(this.#fs, join(folder, name))
    }
  }

  private async write(): Promise<void> {
    for (let ending = this.#ending; ending !== undefined; ending = this.#ending) {
      const pending = this.#pending
      this.#ending = undefined
      this.#pending = { writer: undefined, records: [] }
      try {
        await this.writeOne(pending, ending)
      } catch (error) {
        return this.onWriteError(pending, error)
      }
    }
  }

  private async writeOne({ writer, records }: PendingWrite, ending: Ending): Promise<void> {
    if (writer !== undefined) {
      this.#extent = undefined
      await writer.writeRecords(records)
      const size = await writer.finish(ending, dirname(this.#path), this.#path)
      this.#extent = { base: size, size }
      this.#mayCut = false
      return
    }
    if (this.#extent === undefined) return
    const { base, size: at } = this.#extent
    const mayCut = this.#mayCut
    this.#mayCut = true
    const size = await appendBatch(this.#fs, this.#path, { ...ending, records, at, mayCut })
    this.#extent = { base, size }
    this.#mayCut = false
    if (size - base > Math.max(base, COMPACT_BYTES_MIN)) {
      this.#extent = await compactCopy(this.#fs, this.#path, this.#extent, ending)
    }
  }

  /**
   * Keeps changes for the next write; a whole read is written when the store is read whole again.
   */
  private onWriteError({ writer, records }: PendingWrite, error: unknown): void {
    const reason = reasonOf(error)
    const isOurs = codeOf(error) !== undefined
    if (writer === undefined && isOurs && this.#extent !== undefined) {
      const pending = this.#pending
      if (pending.writer === undefined) pending.records = [...records, ...pending.records]
      this.logProblem(reason)
      return
    }
    void writer?.discard()
    this.giveUp(reason)
  }

  private giveUp(reason: string): void {
    this.#extent = undefined
    void this.#pending.writer?.discard()
    this.#pending = { writer: undefined, records: [] }
    this.logProblem(reason)
  }

  private logProblem(problem: string): void {
    this.#log.warn(
      { file: this.#path, problem },
      'last known good rules: cannot write; a start without the rule store would use an older copy',
    )
  }
}

/** Rejects after a timeout; the work itself is not cancelled. */
async function withDiskTimeout(work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const message = `the disk did not answer within ${DISK_MS_MAX / 1000} s`
    timer = setTimeout(() => reject(new Error(message)), DISK_MS_MAX).unref()
  })
  try {
    await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

const NO_UPDATE: CopyUpdate = { add: async () => {}, complete() {}, discard() {} }

/**
 * The last good copy of a rule store that is elsewhere: what a node starts with while the store is
 * gone. Written after rules are in force and off the way of decisions; whole or not at all, however
 * the process ends. It holds hashes of keys and tokens and the secret of the former, so it is for
 * its owner alone.
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
  /** Its folder is `last-good` in there. */
  readonly dataDir: string
  readonly log: Log
  /** Whether this process writes the copy: of several workers with one folder, one does. */
  readonly isKeeper: boolean
  /** @default the real one */
  readonly fs?: FileSystem | undefined
}

/** One reading of the store, on its way to the copy. */
export interface CopyUpdate {
  add(records: readonly StoredRecord[]): Promise<void>
  /** The reading has ended: kept when the rules are in force. */
  complete(): void
  /** The reading failed: forgotten. */
  discard(): void
}

export interface LastKnownGood {
  /**
   * What is kept, as one reading of everything; nothing where there is none, or none that is good,
   * which is told.
   */
  read(): AsyncIterable<CopyChunk>
  begin(isWhole: boolean): CopyUpdate
  /** What was read is in force, but for what others stand in for: writes it, soon. */
  save(position: Position, standIns: LastGoodVersions): void
  /** Resolves when everything is written that will be. */
  flush(): Promise<void>
}

const FOLDER = 'last-good'
const FILE = 'records.jsonl'
/** Of changes that wait for the disk. Beyond it, the copy waits for the next whole reading. */
const PENDING_MAX = 200_000
/** Changes may come to as much as everything, and to this much in any case. */
const COMPACT_BYTES_MIN = 1024 * 1024
const DISK_MS_MAX = 10_000

export function openLastKnownGood(options: LastKnownGoodOptions): LastKnownGood {
  return new CopyOnDisk(options)
}

/** What has been read, but is not on disk. */
interface PendingWrite {
  /** Everything; undefined: changes only. */
  writer: CopyWriter | undefined
  records: StoredRecord[]
}

class CopyOnDisk implements LastKnownGood {
  readonly #path: string
  readonly #log: Log
  readonly #fs: FileSystem
  readonly #isKeeper: boolean
  #pending: PendingWrite = { writer: undefined, records: [] }
  /** Of what waits, once it is in force. */
  #ending: Ending | undefined
  /** Undefined: there is no copy that changes could be added to. */
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
        // Before it is passed on: nobody has to ask for what follows the last one.
        this.#extent = chunk.extent
        yield chunk
      }
    } catch (error) {
      this.#log.error(
        { file: this.#path, problem: messageOf(error) },
        'the last good copy of the rules is damaged and counts as none',
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
      // A disk that fails, or hangs, is no reason not to read.
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

  /** Drafts of processes that ended too early are of no use to anybody. */
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

  /** Changes can be written with the next; everything is written when it is read again. */
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
      'rules not kept on disk; a start without the rule store finds older ones',
    )
  }
}

/** Rejects if it takes too long; it may go on all the same. */
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

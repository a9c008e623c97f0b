/**
 * The last good copy of a rule store that is elsewhere: what a node starts with while the store is
 * gone. Written after rules are in force and off the way of decisions; whole or not at all, however
 * the process ends. It holds hashes of keys and tokens and the secret of the former, so it is for
 * its owner alone.
 */
import { dirname, join } from 'node:path'
import type { Log } from '../log/logger.js'
import { messageOf } from '../message-of.js'
import {
  codeOf,
  type Disk,
  FOLDER_MODE,
  realDisk,
  reasonOf,
  removeIfThere,
} from '../rule-store/file/disk.js'
import type { Stored } from '../rule-store/records.js'
import type { Position } from '../rule-store/rule-store.js'
import type { StandIns } from './in-force.js'
import { CopyDraft } from './last-good-draft.js'
import {
  appendBatch,
  compactCopy,
  type CopyChunk,
  type Extent,
  readCopy,
} from './last-good-file.js'
import type { Ending } from './last-good-lines.js'

export interface LastGoodOptions {
  /** Its folder is `last-good` in there. */
  readonly dataDir: string
  readonly log: Log
  /** Whether this process writes the copy: of several workers with one folder, one does. */
  readonly isKeeper: boolean
  /** @default the real one */
  readonly disk?: Disk | undefined
}

/** One reading of the store, on its way to the copy. */
export interface CopyReading {
  put(records: readonly Stored[]): Promise<void>
  /** The reading has ended: kept when the rules are in force. */
  done(): void
  /** The reading failed: forgotten. */
  drop(): void
}

export interface LastGood {
  /**
   * What is kept, as one reading of everything; nothing where there is none, or none that is good,
   * which is told.
   */
  read(): AsyncIterable<CopyChunk>
  begin(isWhole: boolean): CopyReading
  /** What was read is in force, but for what others stand in for: writes it, soon. */
  keep(position: Position, standIns: StandIns): void
  /** Resolves when everything is written that will be. */
  settled(): Promise<void>
}

const FOLDER = 'last-good'
const FILE = 'records.jsonl'
/** Of changes that wait for the disk. Beyond it, the copy waits for the next whole reading. */
const WAITING_MAX = 200_000
/** Changes may come to as much as everything, and to this much in any case. */
const COMPACT_BYTES_MIN = 1024 * 1024
const DISK_MS_MAX = 10_000

export function openLastGood(options: LastGoodOptions): LastGood {
  return new DiskCopy(options)
}

/** What has been read, but is not on disk. */
interface Waiting {
  /** Everything; undefined: changes only. */
  draft: CopyDraft | undefined
  records: Stored[]
}

class DiskCopy implements LastGood {
  readonly #path: string
  readonly #log: Log
  readonly #disk: Disk
  readonly #isKeeper: boolean
  #waiting: Waiting = { draft: undefined, records: [] }
  /** Of what waits, once it is in force. */
  #ending: Ending | undefined
  /** Undefined: there is no copy that changes could be added to. */
  #extent: Extent | undefined
  #mayCut = true
  #writing: Promise<void> | undefined
  #isPrepared = false

  constructor({ dataDir, log, isKeeper, disk = realDisk }: LastGoodOptions) {
    this.#path = join(dataDir, FOLDER, FILE)
    this.#log = log
    this.#disk = disk
    this.#isKeeper = isKeeper
  }

  async *read(): AsyncIterable<CopyChunk> {
    try {
      for await (const chunk of readCopy(this.#disk, this.#path)) {
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

  begin(isWhole: boolean): CopyReading {
    if (!this.#isKeeper) return NO_READING
    return isWhole ? this.beginWhole() : this.beginChanges()
  }

  keep(position: Position, standIns: StandIns): void {
    if (!this.#isKeeper) return
    this.#ending = { position, standIns }
    this.#writing ??= this.write().finally(() => {
      this.#writing = undefined
    })
  }

  async settled(): Promise<void> {
    await this.#writing
  }

  private beginChanges(): CopyReading {
    const records: Stored[] = []
    return {
      put: async (more) => {
        for (const record of more) records.push(record)
      },
      done: () => {
        const waiting = this.#waiting
        if (waiting.records.length + records.length <= WAITING_MAX) {
          for (const record of records) waiting.records.push(record)
        } else {
          this.giveUp('too many changes wait for the disk')
        }
      },
      drop: () => {},
    }
  }

  private beginWhole(): CopyReading {
    let draft: CopyDraft | undefined
    let failure: unknown
    const attempt = async (act: () => Promise<void>) => {
      // A disk that fails, or hangs, is no reason not to read.
      if (failure !== undefined) return
      await inTime(act()).catch((error: unknown) => {
        failure = error
      })
    }
    return {
      put: async (records) => {
        await attempt(async () => {
          draft ??= await this.openDraft()
          await draft.put(records)
        })
      },
      done: () => {
        if (failure === undefined) {
          void this.#waiting.draft?.drop()
          this.#waiting = { draft, records: [] }
          return
        }
        void draft?.drop()
        this.giveUp(reasonOf(failure))
      },
      drop: () => void draft?.drop(),
    }
  }

  private async openDraft(): Promise<CopyDraft> {
    if (!this.#isPrepared) await this.prepare()
    this.#isPrepared = true
    return CopyDraft.open(this.#disk, this.#path)
  }

  /** Drafts of processes that ended too early are of no use to anybody. */
  private async prepare(): Promise<void> {
    const folder = dirname(this.#path)
    await this.#disk.mkdir(folder)
    await this.#disk.chmod(folder, FOLDER_MODE)
    for (const name of await this.#disk.readdir(folder)) {
      if (name.startsWith(`${FILE}.`)) await removeIfThere(this.#disk, join(folder, name))
    }
  }

  private async write(): Promise<void> {
    for (let ending = this.#ending; ending !== undefined; ending = this.#ending) {
      const waiting = this.#waiting
      this.#ending = undefined
      this.#waiting = { draft: undefined, records: [] }
      try {
        await this.writeOne(waiting, ending)
      } catch (error) {
        return this.failed(waiting, error)
      }
    }
  }

  private async writeOne({ draft, records }: Waiting, ending: Ending): Promise<void> {
    if (draft !== undefined) {
      this.#extent = undefined
      await draft.put(records)
      const size = await draft.finish(ending, dirname(this.#path), this.#path)
      this.#extent = { base: size, size }
      this.#mayCut = false
      return
    }
    if (this.#extent === undefined) return
    const { base, size: at } = this.#extent
    const mayCut = this.#mayCut
    this.#mayCut = true
    const size = await appendBatch(this.#disk, this.#path, { ...ending, records, at, mayCut })
    this.#extent = { base, size }
    this.#mayCut = false
    if (size - base > Math.max(base, COMPACT_BYTES_MIN)) {
      this.#extent = await compactCopy(this.#disk, this.#path, this.#extent, ending)
    }
  }

  /** Changes can be written with the next; everything is written when it is read again. */
  private failed({ draft, records }: Waiting, error: unknown): void {
    const reason = reasonOf(error)
    const isOurs = codeOf(error) !== undefined
    if (draft === undefined && isOurs && this.#extent !== undefined) {
      const waiting = this.#waiting
      if (waiting.draft === undefined) waiting.records = [...records, ...waiting.records]
      this.tell(reason)
      return
    }
    void draft?.drop()
    this.giveUp(reason)
  }

  private giveUp(reason: string): void {
    this.#extent = undefined
    void this.#waiting.draft?.drop()
    this.#waiting = { draft: undefined, records: [] }
    this.tell(reason)
  }

  private tell(problem: string): void {
    this.#log.warn(
      { file: this.#path, problem },
      'rules not kept on disk; a start without the rule store finds older ones',
    )
  }
}

/** Rejects if it takes too long; it may go on all the same. */
async function inTime(work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const told = `the disk did not answer within ${DISK_MS_MAX / 1000} s`
    timer = setTimeout(() => reject(new Error(told)), DISK_MS_MAX).unref()
  })
  try {
    await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

const NO_READING: CopyReading = { put: async () => {}, done() {}, drop() {} }

/**
 * The file of a decision log: appended to, put aside when it is large, begun anew when somebody
 * else has put it aside. One thing is done at a time; whoever uses it sees to that.
 */
import { createReadStream, createWriteStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import {
  codeOf,
  type FileSystem,
  type OpenFile,
  FILE_MODE,
  readAt,
  removeIfExists,
  writeAll,
} from '../../rules/store/file/fs.js'

export interface LogFileOptions {
  readonly path: string
  readonly disk: FileSystem
  /** From here on it is time to put the file aside. */
  readonly maxBytes: number
  /** How many that were put aside are kept. */
  readonly keep: number
  /** Told of what went wrong beside the writing. */
  readonly onProblem: (error: unknown) => void
}

const LINE_END = 10
/** A file that cannot be put aside still ends somewhere: at so many times `maxBytes`. */
const OVERSIZE = 2

export class LogFile {
  readonly #options: LogFileOptions
  /** What was put aside and is not compressed yet. */
  readonly #aside: string
  #file: OpenFile | undefined
  /** How large the open file is, as far as this process knows. */
  #size = 0
  /** Its last byte is not the end of a line: a process ended, or the disk was full. */
  #isTorn = false
  /** Never rejects. */
  #packing: Promise<void> = Promise.resolve()

  constructor(options: LogFileOptions) {
    this.#options = options
    this.#aside = `${options.path}.1`
  }

  get size(): number {
    return this.#size
  }

  async open(): Promise<void> {
    const { path, disk } = this.#options
    await requireFile(disk, path)
    const file = await disk.open(path, 'a+', FILE_MODE)
    try {
      const { size } = await file.stat()
      this.#isTorn = size > 0 && (await readAt(file, size - 1, 1))[0] !== LINE_END
      this.#size = size
    } catch (error) {
      await file.close()
      throw error
    }
    this.#file = file
  }

  /** What a process before this one did not get to. */
  finishRotation(): void {
    this.#packing = this.pack().catch(this.#options.onProblem)
  }

  /** All of it or, as far as that can be had, nothing. */
  async append(bytes: Uint8Array): Promise<void> {
    if (this.#file === undefined) await this.open()
    const file = this.#file
    if (file === undefined) return
    const { size } = await file.stat()
    const isTruncated = size < this.#size
    this.#size = size
    // The names that its lines need were in what is gone.
    if (isTruncated) throw new Error('somebody else cut it short')
    if (size > OVERSIZE * this.#options.maxBytes) throw new Error('it cannot be put aside')
    try {
      if (this.#isTorn) await writeAll(file, Uint8Array.of(LINE_END))
      await writeAll(file, bytes)
      this.#size += bytes.length + (this.#isTorn ? 1 : 0)
      this.#isTorn = false
    } catch (error) {
      await this.truncateTo(file)
      throw error
    }
  }

  /**
   * Whether what is under the name is no longer what is written to: moved away, removed or cut to
   * nothing. Then tells how large it is.
   */
  async inspect(): Promise<{ readonly isOther: boolean; readonly size: number }> {
    if (this.#file === undefined) return { isOther: false, size: this.#size }
    const own = await this.#file.stat()
    try {
      const { ino, dev, size } = await this.#options.disk.stat(this.#options.path)
      return { isOther: ino !== own.ino || dev !== own.dev || size < this.#size, size }
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error
      return { isOther: true, size: 0 }
    }
  }

  /** The next bytes go to what is under the name then. */
  async reopen(): Promise<void> {
    const file = this.#file
    this.#file = undefined
    await file?.close()
  }

  /** The next bytes begin a new file; the old one is compressed in the background. */
  async rotate(): Promise<void> {
    if (this.#file === undefined) await this.open()
    // A chunk may have been lost since somebody thought that it was large enough.
    if (this.#size < this.#options.maxBytes / 2) return
    const { path, disk } = this.#options
    await this.#packing
    // Where compressing failed before, it must succeed now: two cannot have the same name.
    await this.pack()
    await this.shift()
    await disk.rename(path, this.#aside)
    await this.reopen()
    this.finishRotation()
  }

  async close(): Promise<void> {
    await this.reopen()
    await this.#packing
  }

  /** `.1.gz` becomes `.2.gz`, and so on; what is too old goes. */
  private async shift(): Promise<void> {
    const { keep, disk } = this.#options
    for (let place = keep + 1; await removed(disk, this.packed(place)); place++);
    let first = 1
    // Only as far as names are taken: behind a gap nothing has to make room.
    while (first < keep && (await isThere(disk, this.packed(first)))) first++
    for (let place = first - 1; place >= 1; place--) {
      await disk.rename(this.packed(place), this.packed(place + 1))
    }
  }

  private packed(place: number): string {
    return `${this.#options.path}.${place}.gz`
  }

  /** Whenever it is interrupted, it can be done again: nothing is lost and nothing there twice. */
  private async pack(): Promise<void> {
    const { disk, path } = this.#options
    const draft = `${path}.1.gz.draft`
    if (!(await isThere(disk, this.#aside))) return
    try {
      // One that is there may be a link, or readable by others: a mode is only for new files.
      await removeIfExists(disk, draft)
      const into = createWriteStream(draft, { flags: 'wx', mode: FILE_MODE })
      await pipeline(createReadStream(this.#aside), createGzip(), into)
      await disk.rename(draft, this.packed(1))
    } catch (error) {
      await removeIfExists(disk, draft).catch(() => undefined)
      throw error
    }
    await disk.unlink(this.#aside)
  }

  /** Half a chunk ends in the middle of a line. */
  private async truncateTo(file: OpenFile): Promise<void> {
    try {
      await file.truncate(this.#size)
    } catch {
      this.#isTorn = true
      await this.reopen().catch(() => undefined)
    }
  }
}

/** Opening a pipe would wait for its reader, and a folder is nothing to write to. */
async function requireFile(disk: FileSystem, path: string): Promise<void> {
  try {
    const stats = await disk.stat(path)
    if (!stats.isFile()) throw new Error('it is no file')
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
  }
}

async function isThere(disk: FileSystem, path: string): Promise<boolean> {
  try {
    await disk.stat(path)
    return true
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false
    throw error
  }
}

async function removed(disk: FileSystem, path: string): Promise<boolean> {
  try {
    await disk.unlink(path)
    return true
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false
    throw error
  }
}

/**
 * The file of a decision log: appends, rotates when the file is large, and follows a rotation by
 * another program. Calls must not overlap.
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
  /** The size from which the file is rotated. */
  readonly maxBytes: number
  /** The number of rotated files to keep. */
  readonly keep: number
  /** Called when compressing in the background fails. */
  readonly onProblem: (error: unknown) => void
}

const LINE_END = 10
/** If rotation fails, the file may grow to this many times `maxBytes`. */
const OVERSIZE = 2

export class LogFile {
  readonly #options: LogFileOptions
  /** The rotated file that is not compressed yet. */
  readonly #aside: string
  #file: OpenFile | undefined
  /** The size of the open file after the last write of this process. */
  #size = 0
  /** Whether the file ends within a line, after a crash or on a full disk. */
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

  /** Compresses a file that an earlier process rotated but did not compress. */
  finishRotation(): void {
    this.#packing = this.pack().catch(this.#options.onProblem)
  }

  /** Writes all bytes or, if possible, none. */
  async append(bytes: Uint8Array): Promise<void> {
    if (this.#file === undefined) await this.open()
    const file = this.#file
    if (file === undefined) return
    const { size } = await file.stat()
    const isTruncated = size < this.#size
    this.#size = size
    // The rule names that the next lines refer to are gone.
    if (isTruncated) throw new Error('the file was truncated by another process')
    if (size > OVERSIZE * this.#options.maxBytes) throw new Error('the file cannot be rotated')
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
   * Returns whether the file under the configured name is another one than the open file, because
   * that was moved, removed or truncated; with the size of the file under the name.
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

  /** Closes the file; the next write opens the file under the configured name. */
  async reopen(): Promise<void> {
    const file = this.#file
    this.#file = undefined
    await file?.close()
  }

  /** Begins a new file with the next write; the old one is compressed in the background. */
  async rotate(): Promise<void> {
    if (this.#file === undefined) await this.open()
    // A chunk may have been lost since the rotation was scheduled.
    if (this.#size < this.#options.maxBytes / 2) return
    const { path, disk } = this.#options
    await this.#packing
    // A rotated file that is not compressed yet would be overwritten, so this must succeed.
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

  /** Renames `.1.gz` to `.2.gz`, and so on; removes files beyond `keep`. */
  private async shift(): Promise<void> {
    const { keep, disk } = this.#options
    for (let place = keep + 1; await removed(disk, this.packed(place)); place++);
    let first = 1
    // Files behind a gap need not move.
    while (first < keep && (await isThere(disk, this.packed(first)))) first++
    for (let place = first - 1; place >= 1; place--) {
      await disk.rename(this.packed(place), this.packed(place + 1))
    }
  }

  private packed(place: number): string {
    return `${this.#options.path}.${place}.gz`
  }

  /** Compresses the rotated file. Safe to repeat after an interruption at any point. */
  private async pack(): Promise<void> {
    const { disk, path } = this.#options
    const draft = `${path}.1.gz.draft`
    if (!(await isThere(disk, this.#aside))) return
    try {
      // An existing draft may be a link or readable by others: a mode applies only to new files.
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

  /** Removes a partly written chunk, which ends in the middle of a line. */
  private async truncateTo(file: OpenFile): Promise<void> {
    try {
      await file.truncate(this.#size)
    } catch {
      this.#isTorn = true
      await this.reopen().catch(() => undefined)
    }
  }
}

/** Refuses anything but a regular file: opening a pipe would wait for its reader. */
async function requireFile(disk: FileSystem, path: string): Promise<void> {
  try {
    const stats = await disk.stat(path)
    if (!stats.isFile()) throw new Error('not a regular file')
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

/**
 * The journal: an append-only file with a line for each version. A version exists when its line is
 * durable. A compacted journal begins with a base in place of its oldest lines.
 */
import { dirname, join } from 'node:path'
import { messageOf } from '../../../lib/message-of.js'
import { type VersionEntry, ruleOf } from '../version-entry.js'
import { UnavailableError } from '../rule-store.js'
import {
  codeOf,
  type FileSystem,
  type OpenFile,
  FILE_MODE,
  readAt,
  reasonOf,
  syncFolder,
  writeAll,
} from './fs.js'
import { decodeLine } from './journal-line.js'

export const JOURNAL = 'journal.jsonl'

/** The place of a line in the file. */
interface Span {
  readonly offset: number
  /** With its newline. */
  readonly length: number
}

export class Journal {
  readonly #fs: FileSystem
  readonly #path: string
  readonly #reader: OpenFile
  #writer: OpenFile | undefined
  /** Size of all durable lines. */
  #length = 0
  /** Whether the file may contain more than the durable lines. */
  #isUnsure = false
  /** The version and offset of each line, and the lines that change each rule. */
  readonly #versions: number[] = []
  readonly #offsets: number[] = []
  readonly #linesOfRule = new Map<string, number[]>()
  #base: { readonly version: number; readonly bytes: number } | undefined
  /** Whether the file was renamed, and the rename is not durable yet. */
  #isNameUnsafe = false
  /** How many reads are in progress, and whether the file is closed after the last of them. */
  #readers = 0
  #isRetired = false

  private constructor(fs: FileSystem, path: string, reader: OpenFile) {
    this.#fs = fs
    this.#path = path
    this.#reader = reader
  }

  /** Opens an existing file without reading it: `add` registers its lines. */
  static async open(fs: FileSystem, folder: string, { isReadOnly = false } = {}): Promise<Journal> {
    const path = join(folder, JOURNAL)
    // Not 'r': an overlay file system would keep showing the file as it was before the first write.
    return new Journal(fs, path, await fs.open(path, isReadOnly ? 'r' : 'r+'))
  }

  /**
   * Opens the compacted draft of this journal, which holds a base and the lines from `first` on. It
   * replaces this journal once `install` has renamed it.
   */
  async openCompacted(
    draft: string,
    { first, version, bytes }: { readonly first: number; version: number; bytes: number },
  ): Promise<Journal> {
    const next = new Journal(this.#fs, this.#path, await this.#fs.open(draft, 'r+'))
    const shift = bytes - (this.#offsets[first] ?? this.#length)
    next.#base = { version, bytes }
    next.#length = this.#length + shift
    for (let line = first; line < this.#versions.length; line++) {
      next.#versions.push(this.versionOf(line))
      next.#offsets.push(this.offsetOf(line) + shift)
    }
    for (const [rule, lines] of this.#linesOfRule) {
      const kept = lines.filter((line) => line >= first).map((line) => line - first)
      if (kept.length > 0) next.#linesOfRule.set(rule, kept)
    }
    return next
  }

  /** Renames the draft to the journal; rejects only if it was not renamed. */
  async install(draft: string): Promise<void> {
    await this.#fs.rename(draft, this.#path)
    this.#isNameUnsafe = true
    await this.saveName().catch(() => undefined)
  }

  get path(): string {
    return this.#path
  }

  get reader(): OpenFile {
    return this.#reader
  }

  get length(): number {
    return this.#length
  }

  get lineCount(): number {
    return this.#versions.length
  }

  /** Size of the base at the start of the file. */
  get baseBytes(): number {
    return this.#base?.bytes ?? 0
  }

  /** The oldest version that a rollback can target; undefined: all versions are kept. */
  get keptSince(): number | undefined {
    return this.#base?.version
  }

  /** Returns the offset of a line; for the line after the last, the end of the file. */
  offsetOf(line: number): number {
    return this.#offsets[line] ?? this.#length
  }

  /** Registers a line of the base, before all others. */
  addBase(version: number, { offset, length }: Span): void {
    this.#base = { version, bytes: offset + length }
    this.#length = offset + length
  }

  /** Registers a line that is durable. */
  add({ version, changes }: VersionEntry, { offset, length }: Span): void {
    const line = this.#versions.length
    this.#versions.push(version)
    this.#offsets.push(offset)
    this.#length = offset + length
    const rules = new Set(changes.map(({ kind, id }) => ruleOf(kind, id)))
    for (const rule of rules) {
      if (rule === undefined) continue
      const lines = this.#linesOfRule.get(rule)
      if (lines === undefined) this.#linesOfRule.set(rule, [line])
      else lines.push(line)
    }
  }

  /** Skips lines that do not count. */
  skipTo(offset: number): void {
    this.#length = offset
  }

  /** Removes everything after the last line. */
  async truncate(): Promise<void> {
    this.#isUnsure = true
    await this.repair()
  }

  /**
   * Appends lines and syncs them together. Rejects with an `UnavailableError`: then none of them is
   * in the file, unless the error `isUncertain`.
   */
  async append(lines: readonly Buffer[]): Promise<readonly Span[]> {
    const writer = await this.readyWriter()
    try {
      await writeAll(writer, Buffer.concat(lines))
      await writer.datasync()
    } catch (error) {
      throw await this.undo(error)
    }
    let offset = this.#length
    return lines.map(({ length }) => {
      const span = { offset, length }
      offset += length
      return span
    })
  }

  /** Yields the lines of a rule, or all, newest first, of versions lower than the given one. */
  *linesBelow(version: number, rule: string | undefined): Generator<number, void, undefined> {
    const ofRule = rule === undefined ? undefined : (this.#linesOfRule.get(rule) ?? [])
    const count = ofRule?.length ?? this.#versions.length
    for (let place = count - 1; place >= 0; place--) {
      const line = ofRule?.[place] ?? place
      if (this.versionOf(line) < version) yield line
    }
  }

  versionOf(line: number): number {
    return this.#versions[line] ?? 0
  }

  /** Reads a line from disk. Rejects with an `UnavailableError`. */
  async read(line: number): Promise<VersionEntry> {
    const offset = this.#offsets[line] ?? 0
    try {
      const length = (this.#offsets[line + 1] ?? this.#length) - offset
      const bytes = await readAt(this.#reader, offset, length)
      // Lines that do not count, of processes that had lost the lock, may follow it.
      const end = bytes.indexOf('\n')
      const decoded = decodeLine(bytes.subarray(0, end))
      if (typeof decoded !== 'string') return decoded.entry
      throw new Error(
        `line ${line + 1} was whole when it was last read, and is not now: ${decoded}`,
      )
    } catch (error) {
      throw new UnavailableError(`${this.#path}: ${messageOf(error)}`, { cause: error })
    }
  }

  /** Keeps the file open for a longer read, until the returned function is called. */
  retain(): () => void {
    this.#readers++
    return () => {
      this.#readers--
      if (this.#isRetired && this.#readers === 0) void this.close().catch(() => undefined)
    }
  }

  /** Closes the file after the last read in progress. */
  async retire(): Promise<void> {
    this.#isRetired = true
    if (this.#readers === 0) await this.close().catch(() => undefined)
  }

  async close(): Promise<void> {
    await this.#writer?.close()
    this.#writer = undefined
    await this.#reader.close()
  }

  /** Returns a handle for a file that is known to end with the last line. */
  private async readyWriter(): Promise<OpenFile> {
    let size: number
    try {
      if (!(await this.isInPlace())) {
        throw new UnavailableError(
          `${this.#path}: the file was removed or replaced while it was in use; keep the rules with \`sluice rules export\`, put the file back, and restart this process`,
        )
      }
      await this.saveName()
      if (this.#isUnsure || this.#writer === undefined) await this.repair()
      size = (await this.#reader.stat()).size
    } catch (error) {
      if (error instanceof UnavailableError) throw error
      throw this.unavailable(error)
    }
    if (size === this.#length && this.#writer !== undefined) return this.#writer
    const found = `found ${size} bytes and wrote ${this.#length}`
    throw new UnavailableError(
      `${this.#path}: ${found}: another process writes to it; stop that one and restart this one`,
    )
  }

  /** Whether the path still names the file that was opened. */
  private async isInPlace(): Promise<boolean> {
    const opened = await this.#reader.stat()
    try {
      return (await this.#fs.stat(this.#path)).ino === opened.ino
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return false
      throw error
    }
  }

  /** Makes the name of a renamed file durable, before a commit to it is confirmed. */
  private async saveName(): Promise<void> {
    if (!this.#isNameUnsafe) return
    await syncFolder(this.#fs, dirname(this.#path))
    this.#isNameUnsafe = false
  }

  /** Removes what may have been written, and returns the error to throw. */
  private async undo(error: unknown): Promise<UnavailableError> {
    this.#isUnsure = true
    try {
      await this.repair()
      return this.unavailable(error)
    } catch {
      return this.unavailable(error, true)
    }
  }

  /**
   * Cuts off everything after the last line, on a new handle: after a failed sync some systems
   * report the error once and then drop the unwritten pages.
   */
  private async repair(): Promise<void> {
    const failed = this.#writer
    this.#writer = undefined
    await failed?.close().catch(() => undefined)
    const writer = await this.#fs.open(this.#path, 'a', FILE_MODE)
    try {
      if (this.#isUnsure) {
        await writer.truncate(this.#length)
        await writer.sync()
      }
    } catch (error) {
      await writer.close().catch(() => undefined)
      throw error
    }
    this.#writer = writer
    this.#isUnsure = false
  }

  private unavailable(error: unknown, isUncertain = false): UnavailableError {
    const message = `${this.#path}: cannot write: ${reasonOf(error)}`
    return new UnavailableError(message, { cause: error, isUncertain })
  }
}

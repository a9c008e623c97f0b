/**
 * The journal: a line for each version, only ever appended to. A version is made when its line is
 * safe on disk; nothing before that counts, and nothing after it can take it back. A compacted
 * journal begins with a base in place of its oldest lines.
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

/** Where the line of a version lies. */
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
  /** Of all lines that are safe. */
  #length = 0
  /** Whether there may be more in the file than those. */
  #isUnsure = false
  /** For each line its version, where it begins, and which ones are of a rule. */
  readonly #versions: number[] = []
  readonly #offsets: number[] = []
  readonly #linesOfRule = new Map<string, number[]>()
  #base: { readonly version: number; readonly bytes: number } | undefined
  /** Whether the file came to its name by a rename that may not survive a crash yet. */
  #isNameUnsafe = false
  /** How many read it now, and whether it is to be closed when they have done so. */
  #readers = 0
  #isRetired = false

  private constructor(fs: FileSystem, path: string, reader: OpenFile) {
    this.#fs = fs
    this.#path = path
    this.#reader = reader
  }

  /** The file is there. Nothing is read: `add` tells of its lines. */
  static async open(fs: FileSystem, folder: string, { isReadOnly = false } = {}): Promise<Journal> {
    const path = join(folder, JOURNAL)
    // Not to read alone: a layered file system would show what the file was before it was written.
    return new Journal(fs, path, await fs.open(path, isReadOnly ? 'r' : 'r+'))
  }

  /**
   * Opens what this journal was compacted to, under the name of its draft: the lines from `first`
   * on are there, behind a base. It takes the place of this one once `install` has renamed it.
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

  /** Puts the draft in the place of the journal; rejects only where that did not happen. */
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

  /** How many bytes at the start of the file are its base. */
  get baseBytes(): number {
    return this.#base?.bytes ?? 0
  }

  /** The oldest version that can be gone back to, where older ones are gone; else undefined. */
  get keptSince(): number | undefined {
    return this.#base?.version
  }

  /** Where a line begins; behind the last one, where the file ends. */
  offsetOf(line: number): number {
    return this.#offsets[line] ?? this.#length
  }

  /** A line of the base, before all others. */
  addBase(version: number, { offset, length }: Span): void {
    this.#base = { version, bytes: offset + length }
    this.#length = offset + length
  }

  /** A line that is in the file and safe. */
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

  /** What follows the last line that counts is not a line that does. */
  skipTo(offset: number): void {
    this.#length = offset
  }

  /** Whatever is in the file behind the last line goes. */
  async truncate(): Promise<void> {
    this.#isUnsure = true
    await this.repair()
  }

  /**
   * Lines, one behind the other, safe on disk together. Rejects with an `UnavailableError`; then
   * none of them is in the file, or `isUncertain`.
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

  /** Lines of a rule or all, newest first, below a version. */
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

  /** Reads a line again. Rejects with an `UnavailableError`. */
  async read(line: number): Promise<VersionEntry> {
    const offset = this.#offsets[line] ?? 0
    try {
      const length = (this.#offsets[line + 1] ?? this.#length) - offset
      const bytes = await readAt(this.#reader, offset, length)
      // Lines of those that no longer held the lock may stand behind it.
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

  /** Keeps the file open for a reading that takes a while, until what it returns is called. */
  retain(): () => void {
    this.#readers++
    return () => {
      this.#readers--
      if (this.#isRetired && this.#readers === 0) void this.close().catch(() => undefined)
    }
  }

  /** Closes it as soon as those who read it have done so. */
  async retire(): Promise<void> {
    this.#isRetired = true
    if (this.#readers === 0) await this.close().catch(() => undefined)
  }

  async close(): Promise<void> {
    await this.#writer?.close()
    this.#writer = undefined
    await this.#reader.close()
  }

  /** A file whose end is known to be that of the last line. */
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

  /** Whether the file that was opened is still the one that the next process would find. */
  private async isInPlace(): Promise<boolean> {
    const opened = await this.#reader.stat()
    try {
      return (await this.#fs.stat(this.#path)).ino === opened.ino
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return false
      throw error
    }
  }

  /** Nothing is confirmed in a file whose name a crash could still take back. */
  private async saveName(): Promise<void> {
    if (!this.#isNameUnsafe) return
    await syncFolder(this.#fs, dirname(this.#path))
    this.#isNameUnsafe = false
  }

  /** The error to tell; what may have been written is taken back first. */
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
   * Cuts off what is behind the last line. A handle that failed to sync is not asked again: some
   * systems tell of an error once, and then forget what was not written.
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
    const message = `${this.#path}: nothing could be written: ${reasonOf(error)}`
    return new UnavailableError(message, { cause: error, isUncertain })
  }
}

/** Reads a journal from its start, cuts off what a crash left of its last line, or makes one. */
import { join } from 'node:path'
import { messageOf } from '../../message-of.js'
import { type Entry, firstEntry } from '../entry.js'
import {
  codeOf,
  type Disk,
  type DiskFile,
  FILE_MODE,
  readFrom,
  reasonOf,
  replaceFile,
  writeAll,
} from './disk.js'
import { decodeLine, encodeLine, type RawLine, splitLines } from './journal-line.js'
import { JOURNAL, Journal } from './journal.js'
import type { Log } from '../../log/logger.js'

/** What a crash left of a line, for whoever wants to look: always the last one. */
const TORN = `${JOURNAL}.torn`
const DRAFT = `${JOURNAL}.new`

export interface OpenJournalParts {
  readonly disk: Disk
  readonly folder: string
  /** The number of the lock's holder. */
  readonly holder: number
  readonly nowMs: number
  readonly log: Log | undefined
  /** Why an entry cannot be the next one; undefined: it can. */
  readonly problemOf: (entry: Entry) => string | undefined
  /** Each version, in order. */
  readonly apply: (entry: Entry) => void
}

/** Rejects with a message for people if the journal is damaged: nothing is written then. */
export async function openJournal(parts: OpenJournalParts): Promise<Journal> {
  const { disk, folder } = parts
  const path = join(folder, JOURNAL)
  try {
    await disk.stat(path)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
    await makeJournal(parts)
  }
  const journal = await Journal.open(disk, folder)
  try {
    await new Scan(parts, journal).run()
    return journal
  } catch (error) {
    await journal.close()
    throw error
  }
}

/** Whole from its first moment: a journal without a first line is never what a crash left. */
async function makeJournal({ disk, folder, holder, nowMs }: OpenJournalParts): Promise<void> {
  const entry = firstEntry(new Date(nowMs).toISOString())
  const bytes = encodeLine({ entry, batch: entry.version, holder })
  const [draft, path] = [join(folder, DRAFT), join(folder, JOURNAL)]
  await replaceFile(disk, folder, { draft, path, bytes })
}

class Scan {
  readonly #parts: OpenJournalParts
  readonly #journal: Journal
  #line = 0
  /** Of the last line that counts. */
  #version = 0
  #holder = 0

  constructor(parts: OpenJournalParts, journal: Journal) {
    this.#parts = parts
    this.#journal = journal
  }

  async run(): Promise<void> {
    let torn: { readonly offset: number; readonly line: number; readonly why: string } | undefined
    for await (const raw of splitLines(readFrom(this.#journal.reader, 0), 0)) {
      this.#line++
      const decoded = raw.isEnded ? this.decode(raw) : 'it has no end'
      if (typeof decoded === 'string') {
        torn ??= { offset: raw.offset, line: this.#line, why: decoded }
        continue
      }
      if (torn === undefined) this.take(raw, decoded)
      // Lines that were written together may reach the disk in any order, or not.
      else if (decoded.batch > this.#version + 1) throw this.damage(torn.line, torn.why)
    }
    if (this.#version === 0) throw this.damage(1, torn?.why ?? 'the file is empty')
    if (torn !== undefined) await this.cutTorn(torn.offset, torn.line)
  }

  private decode({ bytes }: RawLine): ReturnType<typeof decodeLine> {
    try {
      return decodeLine(bytes)
    } catch (error) {
      const place = `${this.#journal.path}, line ${this.#line}`
      const advice = 'Start the release that wrote it, or a newer one'
      throw new Error(`${place}: ${messageOf(error)}. Nothing was changed. ${advice}`, {
        cause: error,
      })
    }
  }

  private take(raw: RawLine, { entry, holder }: Exclude<ReturnType<typeof decodeLine>, string>) {
    const { problemOf, apply, log } = this.#parts
    const problem = problemOf(entry)
    const span = { offset: raw.offset, length: raw.bytes.length + 1 }
    if (problem === undefined) {
      apply(entry)
      this.#journal.add(entry, span)
      this.#version = entry.version
      this.#holder = Math.max(this.#holder, holder)
      return
    }
    // Written by a process that had lost the lock while it was standing still.
    if (holder >= this.#holder) throw this.damage(this.#line, problem)
    this.#journal.skipTo(span.offset + span.length)
    const fields = { file: this.#journal.path, line: this.#line, version: entry.version }
    log?.warn(fields, 'a line of a process that no longer held the lock does not count')
  }

  private async cutTorn(offset: number, line: number): Promise<void> {
    const { disk, folder, log } = this.#parts
    const kept = join(folder, TORN)
    const fields = { file: this.#journal.path, line, version: this.#version }
    try {
      const isSomething = await copyTail(disk, this.#journal.reader, offset, kept)
      const what = 'what a crash left of a version that was never confirmed was cut off'
      log?.warn(isSomething ? { ...fields, kept } : fields, what)
    } catch (error) {
      // A full disk is no reason not to start: nothing of it was ever promised to anybody.
      log?.warn({ ...fields, error: reasonOf(error) }, 'cut off without keeping a copy')
    }
    await this.#journal.cut()
  }

  private damage(line: number, why: string): Error {
    const { path } = this.#journal
    return new Error(
      `${path}, line ${line}: ${why}. The last version before it is ${this.#version}. Nothing was changed. Put the file back from a backup; or, to go on with version ${this.#version} and lose what came later, keep a copy of the file and remove line ${line} and all below it`,
    )
  }
}

/** False: there was nothing but zeros, with which some file systems fill what never came. */
async function copyTail(
  disk: Disk,
  from: DiskFile,
  offset: number,
  path: string,
): Promise<boolean> {
  let copy: DiskFile | undefined
  try {
    for await (const piece of readFrom(from, offset)) {
      if (copy === undefined && piece.every((byte) => byte === 0)) continue
      copy ??= await disk.open(path, 'w', FILE_MODE)
      await writeAll(copy, piece)
    }
  } finally {
    await copy?.close()
  }
  return copy !== undefined
}

/** Reads a journal from its start, cuts off what a crash left of its last line, or makes one. */
import { join } from 'node:path'
import { messageOf } from '../../../lib/message-of.js'
import { type VersionEntry, firstEntry } from '../version-entry.js'
import type { BasePosition } from '../record-table.js'
import type { StoredRecord } from '../records.js'
import {
  codeOf,
  type FileSystem,
  type OpenFile,
  FILE_MODE,
  readFrom,
  reasonOf,
  removeIfExists,
  replaceFile,
  writeAll,
} from './fs.js'
import {
  type Base,
  type BaseChange,
  decodeLine,
  encodeLine,
  type JournalLine,
  type RawLine,
  splitLines,
} from './journal-line.js'
import { JOURNAL, Journal } from './journal.js'
import type { Log } from '../../../observability/log/logger.js'

/** What a crash left of a line, for whoever wants to look: always the last one. */
const TORN = `${JOURNAL}.torn`
const DRAFT = `${JOURNAL}.new`

/** Each holder of the lock has its own, so that the next one can sweep it away. */
export function journalDraft(folder: string, holder: number): string {
  return join(folder, `${DRAFT}-${holder}`)
}

export interface OpenJournalDeps {
  readonly fs: FileSystem
  readonly folder: string
  /** The number of the lock's holder; undefined: without the lock, so nothing is written. */
  readonly holder: number | undefined
  readonly nowMs: number
  readonly log: Log | undefined
  /** Why an entry cannot be the next one; undefined: it can. */
  readonly problemOf: (entry: VersionEntry) => string | undefined
  /** Each version, in order. */
  readonly apply: (entry: VersionEntry) => void
  /** Before all versions: records of a base, and with the last of them where it stands. */
  readonly applyBase: (
    records: readonly StoredRecord[],
    basePosition: BasePosition | undefined,
  ) => void
}

/** Rejects with a message for people if the journal is damaged: nothing is written then. */
export async function openJournal(deps: OpenJournalDeps): Promise<Journal> {
  const { fs, folder, holder } = deps
  const path = join(folder, JOURNAL)
  if (holder !== undefined) await sweepDrafts(fs, folder)
  try {
    await fs.stat(path)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' || holder === undefined) throw error
    await makeJournal(deps, holder)
  }
  const journal = await Journal.open(fs, folder, { isReadOnly: holder === undefined })
  try {
    await new JournalScan(deps, journal).run()
    return journal
  } catch (error) {
    await journal.close()
    throw error
  }
}

/**
 * Removes what earlier holders drafted, before the journal is read: one that stood still and goes
 * on later finds its draft gone, and cannot put it in the place of a journal that went on.
 */
async function sweepDrafts(fs: FileSystem, folder: string): Promise<void> {
  for (const name of await fs.readdir(folder)) {
    if (name.startsWith(DRAFT)) await removeIfExists(fs, join(folder, name))
  }
}

/** Whole from its first moment: a journal without a first line is never what a crash left. */
async function makeJournal({ fs, folder, nowMs }: OpenJournalDeps, holder: number): Promise<void> {
  const entry = firstEntry(new Date(nowMs).toISOString())
  const bytes = encodeLine({ entry, batch: entry.version, holder })
  const [draft, path] = [journalDraft(folder, holder), join(folder, JOURNAL)]
  await replaceFile(fs, folder, { draft, path, bytes })
}

class JournalScan {
  readonly #deps: OpenJournalDeps
  readonly #journal: Journal
  #line = 0
  /** Of the last line that counts. */
  #version = 0
  #holder = 0
  /** How many lines of a base came before; undefined: it is whole, or there is none. */
  #baseParts: number | undefined = 0

  constructor(deps: OpenJournalDeps, journal: Journal) {
    this.#deps = deps
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
      if (torn === undefined) this.addLine(raw, decoded)
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

  private addLine(raw: RawLine, decoded: JournalLine) {
    const { problemOf, apply, log } = this.#deps
    const { entry, holder, base } = decoded
    if (base !== undefined) return this.addBase(raw, decoded, base)
    if (this.#baseParts !== 0 && this.#baseParts !== undefined) {
      throw this.damage(this.#line, `the base before it ends after ${this.#baseParts} lines`)
    }
    this.#baseParts = undefined
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

  private addBase(raw: RawLine, { entry, holder }: JournalLine, base: Base): void {
    const { version, mark, lineage, changes } = entry
    if (base.part !== (this.#baseParts ?? -1) + 1 || lineage === undefined) {
      throw this.damage(this.#line, `found part ${base.part} of a base`)
    }
    const { lineageStart, isAdopted } = base
    const basePosition = { position: { version, mark, lineage }, lineageStart, isAdopted }
    const records = (changes as readonly BaseChange[]).map(
      ({ kind, id, after, version: changed }) =>
        ({ kind, id, body: after, version: changed }) as StoredRecord,
    )
    this.#deps.applyBase(records, base.isLast ? basePosition : undefined)
    this.#journal.addBase(version, { offset: raw.offset, length: raw.bytes.length + 1 })
    this.#holder = Math.max(this.#holder, holder)
    this.#baseParts = base.isLast ? undefined : base.part
    if (base.isLast) this.#version = version
  }

  private async cutTorn(offset: number, line: number): Promise<void> {
    const { fs, folder, log } = this.#deps
    const kept = join(folder, TORN)
    const fields = { file: this.#journal.path, line, version: this.#version }
    if (this.#deps.holder === undefined) {
      log?.warn(fields, 'what a crash left of a version that was never confirmed is not read')
      return
    }
    try {
      const isSomething = await copyTail(fs, this.#journal.reader, offset, kept)
      const what = 'what a crash left of a version that was never confirmed was cut off'
      log?.warn(isSomething ? { ...fields, kept } : fields, what)
    } catch (error) {
      // A full disk is no reason not to start: nothing of it was ever promised to anybody.
      log?.warn({ ...fields, error: reasonOf(error) }, 'cut off without keeping a copy')
    }
    await this.#journal.truncate()
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
  fs: FileSystem,
  from: OpenFile,
  offset: number,
  path: string,
): Promise<boolean> {
  let copy: OpenFile | undefined
  try {
    for await (const piece of readFrom(from, offset)) {
      if (copy === undefined && piece.every((byte) => byte === 0)) continue
      copy ??= await fs.open(path, 'w', FILE_MODE)
      await writeAll(copy, piece)
    }
  } finally {
    await copy?.close()
  }
  return copy !== undefined
}

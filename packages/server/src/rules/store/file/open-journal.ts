/** Opens a journal: creates it, or reads it and cuts off a last line that a crash interrupted. */
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

/** Keeps the last incomplete line that was cut off, for inspection. */
const TORN = `${JOURNAL}.torn`
const DRAFT = `${JOURNAL}.new`

/** Each owner of the lock has its own draft, so that the next one can remove it. */
export function journalDraft(folder: string, holder: number): string {
  return join(folder, `${DRAFT}-${holder}`)
}

export interface OpenJournalDeps {
  readonly fs: FileSystem
  readonly folder: string
  /** The number of the lock; undefined: without the lock, so nothing is written. */
  readonly holder: number | undefined
  readonly nowMs: number
  readonly log: Log | undefined
  /** Why an entry cannot be the next one; undefined: it can. */
  readonly problemOf: (entry: VersionEntry) => string | undefined
  /** Called for each version, in order. */
  readonly apply: (entry: VersionEntry) => void
  /** Called before all versions with records of a base; with its position for the last of them. */
  readonly applyBase: (
    records: readonly StoredRecord[],
    basePosition: BasePosition | undefined,
  ) => void
}

/** Rejects with a described error, and writes nothing, if the journal is damaged. */
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
 * Removes the drafts of earlier owners before the journal is read: one that was suspended and
 * resumes later finds its draft gone, and cannot replace the journal with it.
 */
async function sweepDrafts(fs: FileSystem, folder: string): Promise<void> {
  for (const name of await fs.readdir(folder)) {
    if (name.startsWith(DRAFT)) await removeIfExists(fs, join(folder, name))
  }
}

/** Creates a journal atomically: a crash never leaves one without its first line. */
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
  /** Version of the last line that counts. */
  #version = 0
  #holder = 0
  /** Lines of the base so far; undefined: the base is complete, or there is none. */
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
      // Lines of one batch may reach the disk in any order: only a later batch proves damage.
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
    // Written by a process that had lost the lock while it was suspended.
    if (holder >= this.#holder) throw this.damage(this.#line, problem)
    this.#journal.skipTo(span.offset + span.length)
    const fields = { file: this.#journal.path, line: this.#line, version: entry.version }
    log?.warn(fields, 'rule store: journal line ignored, its writer had lost the lock')
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
      log?.warn(fields, 'rule store: incomplete last journal line ignored')
      return
    }
    try {
      const isSomething = await copyTail(fs, this.#journal.reader, offset, kept)
      const what = 'rule store: incomplete last journal line cut off'
      log?.warn(isSomething ? { ...fields, kept } : fields, what)
    } catch (error) {
      // A full disk must not prevent the start: the line was never confirmed.
      log?.warn(
        { ...fields, error: reasonOf(error) },
        'rule store: incomplete last journal line cut off without a copy',
      )
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

/** Resolves to false if there are only zeros, with which some file systems fill missing data. */
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

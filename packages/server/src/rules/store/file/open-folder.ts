/** Opens the folder of a rule store: with its lock for writing, or without it for reading. */
import { dirname, join } from 'node:path'
import type { WallClock } from '../../../lib/wall-clock.js'
import type { Log } from '../../../observability/log/logger.js'
import { RecordTable } from '../record-table.js'
import { type FileSystem, FOLDER_MODE, isUnwritable, reasonOf, syncFolder } from './fs.js'
import type { ProcessContext } from './lock-owner.js'
import { JOURNAL, type Journal } from './journal.js'
import { FolderLock } from './folder-lock.js'
import { openJournal } from './open-journal.js'
import { RulesYamlFile } from './rules-yaml-file.js'
import { RuleSetView } from './rule-set-view.js'

export interface FolderDeps {
  readonly folder: string
  readonly fs: FileSystem
  readonly clock: WallClock
  readonly log: Log | undefined
  readonly processContext: ProcessContext
  readonly wait: (ms: number) => Promise<unknown>
}

/** The content of a journal, in memory. */
export interface FolderContents {
  readonly table: RecordTable
  readonly view: RuleSetView
  readonly journal: Journal
}

export interface ReadOnlyFolder extends FolderContents {
  /** The `journalStamp` when the journal was read. */
  readonly stamp: string
}

export interface WritableFolder extends FolderContents {
  readonly lock: FolderLock
  readonly file: RulesYamlFile
}

/**
 * Rejects with a described error if another process uses the folder or the journal is damaged, and
 * with the error of the file system if the folder cannot be written.
 */
export async function openToWrite(
  deps: FolderDeps,
  { isRetry = false } = {},
): Promise<WritableFolder> {
  const { folder, fs, log, processContext, wait } = deps
  await makeFolder(fs, folder)
  // Retries do not log again what the first attempt logged.
  const startLog = isRetry ? undefined : log
  await restrictAccess(fs, folder, startLog)
  const onWaiting = (message: string) => startLog?.info({ folder }, message)
  const lock = await FolderLock.take({ folder, fs, processContext, wait, onWaiting })
  try {
    const read = await readJournal(deps, lock.number)
    const { view } = read
    const file = new RulesYamlFile({
      fs,
      folder,
      log,
      present: () => view.present(),
      version: () => view.version,
      lossReason: () => lock.lossReason(),
    })
    await file.repair()
    return { ...read, lock, file }
  } catch (error) {
    await lock.release().catch(() => lock.abandon())
    throw error
  }
}

/** Changes nothing in the folder. Rejects if the journal is missing or damaged. */
export async function openToRead(deps: FolderDeps): Promise<ReadOnlyFolder> {
  // Taken before the journal is read, so that a write meanwhile is noticed the next time.
  const stamp = await journalStamp(deps)
  return { ...(await readJournal(deps, undefined)), stamp }
}

/** Returns a text that changes when another process writes to the journal. */
export async function journalStamp({ fs, folder }: FolderDeps): Promise<string> {
  const { ino, size } = await fs.stat(join(folder, JOURNAL))
  return `${ino} ${size}`
}

async function readJournal(
  { folder, fs, clock, log }: FolderDeps,
  holder: number | undefined,
): Promise<FolderContents> {
  const table = new RecordTable()
  const view = new RuleSetView(table)
  const journal = await openJournal({
    fs,
    folder,
    holder,
    nowMs: clock.now(),
    log,
    problemOf: (entry) => table.problemOf(entry),
    apply: (entry) => {
      table.apply(entry)
      view.apply(entry)
    },
    applyBase: (records, basePosition) => {
      table.putBase(records)
      view.applyBase(records)
      if (basePosition === undefined) return
      table.startAt(basePosition)
      view.startAt(basePosition.position.version)
    },
  })
  table.begin()
  return { table, view, journal }
}

/** Creates the folder. For an existing one, the parent may be closed to this process. */
async function makeFolder(fs: FileSystem, folder: string): Promise<void> {
  const wasThere = await fs.stat(folder).then(
    () => true,
    () => false,
  )
  await fs.mkdir(folder)
  try {
    await syncFolder(fs, dirname(folder))
  } catch (error) {
    // Ignored for an existing folder: taking its lock shows whether it can be used.
    if (!wasThere || !isUnwritable(error)) throw error
  }
}

/** Closes the folder to other users: it holds the secret of key hashes. */
async function restrictAccess(fs: FileSystem, folder: string, log: Log | undefined): Promise<void> {
  const { mode } = await fs.stat(folder)
  if ((mode & 0o077) === 0) return
  try {
    await fs.chmod(folder, FOLDER_MODE)
  } catch (error) {
    // The files in it are closed to others in any case.
    log?.warn(
      { folder, error: reasonOf(error) },
      'rule store: folder is open to other users; run chmod 700',
    )
  }
}

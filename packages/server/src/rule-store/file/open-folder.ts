/** Opens the folder of a rule store: with its lock to write, or without it to read alone. */
import { dirname, join } from 'node:path'
import type { WallClock } from '../../clock.js'
import type { Log } from '../../log/logger.js'
import { Ledger } from '../ledger.js'
import { type Disk, FOLDER_MODE, isUnwritable, reasonOf, syncFolder } from './disk.js'
import type { Surroundings } from './holder.js'
import { JOURNAL, type Journal } from './journal.js'
import { FolderLock } from './lock.js'
import { openJournal } from './open-journal.js'
import { RulesFile } from './rules-file.js'
import { RulesView } from './rules-view.js'

export interface FolderDeps {
  readonly folder: string
  readonly disk: Disk
  readonly clock: WallClock
  readonly log: Log | undefined
  readonly surroundings: Surroundings
  readonly wait: (ms: number) => Promise<unknown>
}

/** What a journal holds, in memory. */
export interface ReadFolder {
  readonly ledger: Ledger
  readonly view: RulesView
  readonly journal: Journal
}

export interface ReadOnlyFolder extends ReadFolder {
  /** Of the journal as it was read. */
  readonly stamp: string
}

export interface WritableFolder extends ReadFolder {
  readonly lock: FolderLock
  readonly file: RulesFile
}

/**
 * Rejects with a message for people if another process holds the folder or the journal is damaged,
 * and with the error of the disk if it cannot be written.
 */
export async function openToWrite(
  deps: FolderDeps,
  { isRetry = false } = {},
): Promise<WritableFolder> {
  const { folder, disk, log, surroundings, wait } = deps
  await makeFolder(disk, folder)
  // What was logged at the start is not logged again every few seconds.
  const startLog = isRetry ? undefined : log
  await keepToOneself(disk, folder, startLog)
  const onWaiting = (message: string) => startLog?.info({ folder }, message)
  const lock = await FolderLock.take({ folder, disk, surroundings, wait, onWaiting })
  try {
    const read = await readJournal(deps, lock.number)
    const { view } = read
    const file = new RulesFile({
      disk,
      folder,
      log,
      present: () => view.present(),
      version: () => view.version,
      lostBecause: () => lock.lostBecause(),
    })
    await file.repair()
    return { ...read, lock, file }
  } catch (error) {
    await lock.release().catch(() => lock.abandon())
    throw error
  }
}

/** Changes nothing in the folder. Rejects if there is no journal, or a damaged one. */
export async function openToRead(deps: FolderDeps): Promise<ReadOnlyFolder> {
  // Before it is read: what is written meanwhile is found the next time.
  const stamp = await journalStamp(deps)
  return { ...(await readJournal(deps, undefined)), stamp }
}

/** What changes when another process has written to the journal. */
export async function journalStamp({ disk, folder }: FolderDeps): Promise<string> {
  const { ino, size } = await disk.stat(join(folder, JOURNAL))
  return `${ino} ${size}`
}

async function readJournal(
  { folder, disk, clock, log }: FolderDeps,
  holder: number | undefined,
): Promise<ReadFolder> {
  const ledger = new Ledger()
  const view = new RulesView(ledger)
  const journal = await openJournal({
    disk,
    folder,
    holder,
    nowMs: clock.now(),
    log,
    problemOf: (entry) => ledger.problemOf(entry),
    apply: (entry) => {
      ledger.apply(entry)
      view.apply(entry)
    },
    applyBase: (records, origin) => {
      ledger.putBase(records)
      view.applyBase(records)
      if (origin === undefined) return
      ledger.startAt(origin)
      view.startAt(origin.position.version)
    },
  })
  ledger.begin()
  return { ledger, view, journal }
}

/** A folder that was there needs nothing of its parent, which may be closed to this process. */
async function makeFolder(disk: Disk, folder: string): Promise<void> {
  const wasThere = await disk.stat(folder).then(
    () => true,
    () => false,
  )
  await disk.mkdir(folder)
  try {
    await syncFolder(disk, dirname(folder))
  } catch (error) {
    // Whether a living process holds the folder is looked at in any case.
    if (!wasThere || !isUnwritable(error)) throw error
  }
}

/** It holds the secret of key hashes. */
async function keepToOneself(disk: Disk, folder: string, log: Log | undefined): Promise<void> {
  const { mode } = await disk.stat(folder)
  if ((mode & 0o077) === 0) return
  try {
    await disk.chmod(folder, FOLDER_MODE)
  } catch (error) {
    // Its files are closed to others all the same.
    log?.warn({ folder, error: reasonOf(error) }, 'others may look into this folder; chmod 700 it')
  }
}

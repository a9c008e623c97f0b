/**
 * Ensures that one process at a time writes in a folder. The lock is a file `lock.N`; the process
 * with the highest N owns it. A process that finds the owner dead creates `lock.N+1`, which only
 * one can do, so two that try at once never take the lock from each other. Numbers never decrease:
 * an owner that releases the lock marks its file and leaves it there.
 */
import { join } from 'node:path'
import { messageOf } from '../../../lib/message-of.js'
import {
  codeOf,
  type FileSystem,
  isUnwritable,
  readSmallFile,
  reasonOf,
  removeIfExists,
  writeAll,
  writeFile,
} from './fs.js'
import type { LockOwner, Liveness, ProcessContext } from './lock-owner.js'

/** How often an owner touches its file, for processes that cannot see its pid. */
const TOUCH_EVERY_MS = 3000
/** An owner whose pid cannot be seen counts as dead after this long without a touch. */
const SILENT_MS_MAX = 15_000
const POLL_EVERY_MS = 500
const TRIES_MAX = 20
const LOCK_BYTES_MAX = 64 * 1024
const NAME = /^lock\.(\d{1,15})$/
const DRAFT = /^lock\.new-/

export interface LockDeps {
  readonly folder: string
  readonly fs: FileSystem
  readonly processContext: ProcessContext
  readonly wait: (ms: number) => Promise<unknown>
  /** Called once, when taking the lock has to wait for an owner that may be dead. */
  readonly onWaiting: (message: string) => void
}

interface LockState {
  readonly number: number
  /** Undefined: the file cannot be parsed. */
  readonly holder: LockOwner | undefined
  readonly isReleased: boolean
  readonly touchedMs: number
  /** Whether it was created in this folder: a copy of a folder contains the lock of the other. */
  readonly isSameFolder: boolean
}

/** With the inode of the folder, which a copy of the folder does not share. */
interface LockContext extends LockDeps {
  readonly inode: number
}

export class FolderLock {
  readonly #context: LockContext
  readonly number: number
  readonly #timer: NodeJS.Timeout
  #touching: Promise<void> = Promise.resolve()
  #problem: string | undefined

  private constructor(context: LockContext, number: number) {
    this.#context = context
    this.number = number
    this.#timer = setInterval(() => this.touch(), TOUCH_EVERY_MS).unref()
  }

  /** Rejects with an error that names the owner if another process holds the lock. */
  static async take(deps: LockDeps): Promise<FolderLock> {
    const { folder, fs, processContext } = deps
    const context: LockContext = { ...deps, inode: (await fs.stat(folder)).ino }
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const found = await readNewestLock(context)
      if (found !== undefined) await refuseIfHeld(context, found)
      const number = (found?.number ?? 0) + 1
      if (!(await createLock(context, number))) continue
      const numbers = lockNumbers(await fs.readdir(folder))
      if (Math.max(...numbers) === number) {
        const lock = new FolderLock(context, number)
        // The lock is taken: files that cannot be removed now are removed by the next owner.
        await lock.removeOldLocks().catch(() => undefined)
        return lock
      }
      // Another process took and released the lock meanwhile: this one is not the newest.
      await removeIfExists(fs, join(folder, `lock.${number}`))
    }
    const { pid } = processContext.self
    throw new Error(`${folder}: process ${pid} and others try to lock it at the same time`)
  }

  /** Why this process lost the lock, or cannot check it; at most a few seconds old. */
  get problem(): string | undefined {
    return this.#problem
  }

  /**
   * Resolves to why this process no longer owns the lock; undefined: it does. Rejects if the lock
   * cannot be read.
   */
  async lossReason(): Promise<string | undefined> {
    const { folder, processContext } = this.#context
    let newest: LockState | undefined
    try {
      newest = await readNewestLock(this.#context)
    } catch (error) {
      const message = `${folder}: cannot read its lock: ${reasonOf(error)}`
      throw new Error(message, { cause: error })
    }
    const number = newest?.number ?? 0
    // The number alone is not enough: the folder may have been removed and created again.
    if (number === this.number && newest?.holder?.id === processContext.self.id) return undefined
    const what = number >= this.number ? 'another process took it over' : 'it was removed'
    return `${join(folder, this.name())}: this process no longer holds the lock: ${what}; restart it`
  }

  /** Does nothing if another process owns the lock by now. */
  async release(): Promise<void> {
    const { folder, fs, processContext, inode } = this.#context
    clearInterval(this.#timer)
    await this.#touching
    if ((await this.lossReason()) !== undefined) return
    const draft = draftOf(processContext.self)
    const bytes = Buffer.from(textOf(processContext.self, inode, true))
    try {
      await writeFile(fs, join(folder, draft), bytes)
      await fs.rename(join(folder, draft), join(folder, this.name()))
    } catch (error) {
      await removeIfExists(fs, join(folder, draft)).catch(() => undefined)
      throw error
    }
  }

  /** Leaves the lock on disk, like a process that died. */
  abandon(): void {
    clearInterval(this.#timer)
  }

  private name(): string {
    return `lock.${this.number}`
  }

  /** Rewrites the file, so that its modification time is set by the file system's clock. */
  private touch(): void {
    const { folder, fs, processContext, inode } = this.#context
    const write = async () => {
      this.#problem = await this.lossReason().catch(messageOf)
      if (this.#problem !== undefined) return
      const file = await fs.open(join(folder, this.name()), 'r+')
      try {
        await writeAll(file, Buffer.from(textOf(processContext.self, inode, false)))
      } finally {
        await file.close()
      }
    }
    // Errors are ignored here: every commit checks the lock itself.
    this.#touching = this.#touching.then(write).catch(() => undefined)
  }

  /** Removes the files of earlier owners, and drafts of processes that failed to become one. */
  private async removeOldLocks(): Promise<void> {
    const { folder, fs } = this.#context
    for (const name of await fs.readdir(folder)) {
      const isOld = Number(NAME.exec(name)?.[1] ?? Infinity) < this.number
      if (isOld || DRAFT.test(name)) await removeIfExists(fs, join(folder, name))
    }
  }
}

/** Reads the lock file with the highest number; undefined: there is none. */
async function readNewestLock({ folder, fs, inode }: LockContext): Promise<LockState | undefined> {
  for (;;) {
    const number = Math.max(0, ...lockNumbers(await fs.readdir(folder)))
    if (number === 0) return undefined
    const path = join(folder, `lock.${number}`)
    try {
      const { mtimeMs } = await fs.stat(path)
      const text = await readSmallFile(fs, path, LOCK_BYTES_MAX)
      if (text !== undefined) return { number, touchedMs: mtimeMs, ...parse(text, inode) }
    } catch (error) {
      // ENOENT: the next owner removed it.
      if (codeOf(error) !== 'ENOENT') throw error
    }
  }
}

async function refuseIfHeld(context: LockContext, first: LockState): Promise<void> {
  const { folder, wait, onWaiting } = context
  const file = join(folder, `lock.${first.number}`)
  let isReported = false
  let waitedMs = 0
  for (let now = first; ; ) {
    // Its own lock, if a release failed on a full disk.
    if (now.isReleased || now.holder?.id === context.processContext.self.id) return
    const liveness = livenessOf(context, now)
    if (liveness === 'dead') return
    const hasMoved = now.number !== first.number || now.touchedMs !== first.touchedMs
    if (liveness === 'alive' || hasMoved) throw heldError(folder, file, now.holder)
    const silentMs = await silenceOf(context, now)
    // The time waited counts too, in case the clock was set back meanwhile.
    if (Math.max(silentMs, waitedMs) >= SILENT_MS_MAX) return
    if (!isReported) onWaiting(`rule store: waiting to see whether the owner of ${file} is alive`)
    isReported = true
    await wait(POLL_EVERY_MS)
    waitedMs += POLL_EVERY_MS
    const next = await readNewestLock(context)
    if (next === undefined) return
    now = next
  }
}

function livenessOf(
  { processContext }: LockContext,
  { holder, isSameFolder }: LockState,
): Liveness {
  if (holder === undefined) return 'unknown'
  const liveness = processContext.livenessOf(holder)
  // The process is alive, but may own another copy of the folder.
  return liveness === 'alive' && !isSameFolder ? 'unknown' : liveness
}

function heldError(folder: string, file: string, owner: LockOwner | undefined): Error {
  const who =
    owner === undefined
      ? 'another process'
      : `process ${owner.pid} on ${owner.host} (Sluice ${owner.release})`
  return new Error(
    `${folder}: ${who} uses it (${file}). Stop that one, or give this one another SLUICE_DATA_DIR; for several nodes with the same rules, set SLUICE_DATABASE_URL on all of them`,
  )
}

/**
 * Returns how long ago the owner touched its file, by the clock of the file system, because the
 * clocks of two machines may differ. 0 if the folder cannot be written: that clock is read from a
 * new file.
 */
async function silenceOf(
  { folder, fs, processContext }: LockDeps,
  { touchedMs }: LockState,
): Promise<number> {
  const path = join(folder, draftOf(processContext.self))
  try {
    await writeFile(fs, path, Buffer.from('now'))
    return (await fs.stat(path)).mtimeMs - touchedMs
  } catch (error) {
    if (isUnwritable(error)) return 0
    throw error
  } finally {
    await removeIfExists(fs, path).catch(() => undefined)
  }
}

/** Creates a lock file atomically; resolves to false if there is one with that number. */
async function createLock(context: LockContext, number: number): Promise<boolean> {
  const { folder, fs, processContext, inode } = context
  const draft = join(folder, draftOf(processContext.self))
  try {
    await writeFile(fs, draft, Buffer.from(textOf(processContext.self, inode, false)))
    await fs.link(draft, join(folder, `lock.${number}`))
    return true
  } catch (error) {
    // ENOENT: the present owner removed the draft.
    if (codeOf(error) === 'EEXIST' || codeOf(error) === 'ENOENT') return false
    throw error
  } finally {
    // The next owner removes drafts too, but on a full disk they must not pile up.
    await removeIfExists(fs, draft).catch(() => undefined)
  }
}

function lockNumbers(names: readonly string[]): readonly number[] {
  return names.flatMap((name) => Number(NAME.exec(name)?.[1] ?? Number.NaN) || [])
}

function draftOf({ id }: LockOwner): string {
  return `lock.new-${id}`
}

interface LockFileContent extends LockOwner {
  readonly folder?: number
  readonly isReleased: boolean
}

function textOf(owner: LockOwner, folder: number, isReleased: boolean): string {
  return `${JSON.stringify({ ...owner, folder, isReleased } satisfies LockFileContent)}\n`
}

function parse(
  text: string,
  inode: number,
): Pick<LockState, 'holder' | 'isReleased' | 'isSameFolder'> {
  try {
    const { isReleased, folder = inode, ...holder } = JSON.parse(text) as LockFileContent
    const isHolder = typeof holder.pid === 'number'
    return { holder: isHolder ? holder : undefined, isReleased, isSameFolder: folder === inode }
  } catch {
    return { holder: undefined, isReleased: false, isSameFolder: true }
  }
}

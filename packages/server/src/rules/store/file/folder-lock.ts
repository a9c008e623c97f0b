/**
 * One process at a time writes in a folder. The lock is a file `lock.N`; who has the highest N
 * holds it. Whoever finds its holder dead makes `lock.N+1`, which only one can: two that do so at
 * once never take the lock from each other. Numbers never go back: a holder that leaves marks its
 * file and lets it lie.
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

/** How often a holder shows that it lives, for those who cannot see its process. */
const TOUCH_EVERY_MS = 3000
/** After so long without a sign, a holder that cannot be seen is dead. */
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
  /** Told once, when it has to be seen whether a holder is silent. */
  readonly onWaiting: (message: string) => void
}

interface LockState {
  readonly number: number
  /** Undefined: its file says nothing that can be read. */
  readonly holder: LockOwner | undefined
  readonly isReleased: boolean
  readonly touchedMs: number
  /** Whether it was made here: a copy of a folder has the lock of the other one in it. */
  readonly isSameFolder: boolean
}

/** With the number of the folder itself, which a copy of it does not have. */
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

  /** Rejects with a message for people if another process holds it. */
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
        // The lock is taken: what cannot be removed now is removed by the next holder.
        await lock.removeOldLocks().catch(() => undefined)
        return lock
      }
      // Somebody was here and gone while we looked: ours is not the newest.
      await removeIfExists(fs, join(folder, `lock.${number}`))
    }
    const { pid } = processContext.self
    throw new Error(`${folder}: process ${pid} and others try to lock it at the same time`)
  }

  /** Why the folder is not this process's, or cannot be looked at, since a few seconds at most. */
  get problem(): string | undefined {
    return this.#problem
  }

  /**
   * Why the folder is no longer this process's, for people; undefined: it is. Rejects if it cannot
   * be looked at.
   */
  async lossReason(): Promise<string | undefined> {
    const { folder, processContext } = this.#context
    let newest: LockState | undefined
    try {
      newest = await readNewestLock(this.#context)
    } catch (error) {
      const message = `${folder}: its lock could not be looked at: ${reasonOf(error)}`
      throw new Error(message, { cause: error })
    }
    const number = newest?.number ?? 0
    // The number alone tells nothing in a folder that was removed and made anew.
    if (number === this.number && newest?.holder?.id === processContext.self.id) return undefined
    const what = number >= this.number ? 'another process took it over' : 'it was removed'
    return `${join(folder, this.name())}: this process no longer holds the lock: ${what}; restart it`
  }

  /** A lock that is another's by now is left alone. */
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

  /** The lock stays on disk as that of a process that died would. */
  abandon(): void {
    clearInterval(this.#timer)
  }

  private name(): string {
    return `lock.${this.number}`
  }

  /** Writes what is there already: the time of the change is the file system's own. */
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
    // Whether the lock still holds is asked before every commit; nothing is to be done here.
    this.#touching = this.#touching.then(write).catch(() => undefined)
  }

  /** What earlier holders left behind, and those that failed to become one. */
  private async removeOldLocks(): Promise<void> {
    const { folder, fs } = this.#context
    for (const name of await fs.readdir(folder)) {
      const isOld = Number(NAME.exec(name)?.[1] ?? Infinity) < this.number
      if (isOld || DRAFT.test(name)) await removeIfExists(fs, join(folder, name))
    }
  }
}

/** The newest lock there is. */
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
      // Gone: its successor removed it.
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
    // Its own: a release that failed on a full disk left it there.
    if (now.isReleased || now.holder?.id === context.processContext.self.id) return
    const liveness = livenessOf(context, now)
    if (liveness === 'dead') return
    const hasMoved = now.number !== first.number || now.touchedMs !== first.touchedMs
    if (liveness === 'alive' || hasMoved) throw heldError(folder, file, now.holder)
    const silentMs = await silenceOf(context, now)
    // A clock that was put back meanwhile tells nothing; what was waited for does.
    if (Math.max(silentMs, waitedMs) >= SILENT_MS_MAX) return
    if (!isReported) onWaiting(`${file}: waiting to see whether its holder is still there`)
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
  // It lives, but nothing says that it is here.
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
 * Returns how long a holder has been silent by the clock of the file system: clocks of two machines
 * need not agree. 0 where that clock cannot be read because nothing can be written.
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

/** Whole from its first moment; false: there is one of that number. */
async function createLock(context: LockContext, number: number): Promise<boolean> {
  const { folder, fs, processContext, inode } = context
  const draft = join(folder, draftOf(processContext.self))
  try {
    await writeFile(fs, draft, Buffer.from(textOf(processContext.self, inode, false)))
    await fs.link(draft, join(folder, `lock.${number}`))
    return true
  } catch (error) {
    // Without the draft: who holds the lock by now swept it away.
    if (codeOf(error) === 'EEXIST' || codeOf(error) === 'ENOENT') return false
    throw error
  } finally {
    // A draft that stays is swept by the next holder; on a full disk it must not pile up.
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

/**
 * One process at a time writes in a folder. The lock is a file `lock.N`; who has the highest N
 * holds it. Whoever finds its holder dead makes `lock.N+1`, which only one can: two that do so at
 * once never take the lock from each other. Numbers never go back: a holder that leaves marks its
 * file and lets it lie.
 */
import { join } from 'node:path'
import { messageOf } from '../../message-of.js'
import {
  codeOf,
  type Disk,
  isUnwritable,
  readText,
  reasonOf,
  removeIfThere,
  writeAll,
  writeFile,
} from './disk.js'
import type { Holder, Life, Surroundings } from './holder.js'

/** How often a holder shows that it lives, for those who cannot see its process. */
const TOUCH_EVERY_MS = 3000
/** After so long without a sign, a holder that cannot be seen is dead. */
const SILENT_MS_MAX = 15_000
const LOOK_EVERY_MS = 500
const TRIES_MAX = 20
const LOCK_BYTES_MAX = 64 * 1024
const NAME = /^lock\.(\d{1,15})$/
const DRAFT = /^lock\.new-/

export interface LockParts {
  readonly folder: string
  readonly disk: Disk
  readonly surroundings: Surroundings
  readonly wait: (ms: number) => Promise<unknown>
  /** Told once, when it has to be seen whether a holder is silent. */
  readonly onWaiting: (message: string) => void
}

interface Found {
  readonly number: number
  /** Undefined: its file says nothing that can be read. */
  readonly holder: Holder | undefined
  readonly isReleased: boolean
  readonly touchedMs: number
  /** Whether it was made here: a copy of a folder has the lock of the other one in it. */
  readonly isOfFolder: boolean
}

/** With the number of the folder itself, which a copy of it does not have. */
interface Here extends LockParts {
  readonly inode: number
}

export class FolderLock {
  readonly #parts: Here
  readonly number: number
  readonly #timer: NodeJS.Timeout
  #touching: Promise<void> = Promise.resolve()
  #problem: string | undefined

  private constructor(parts: Here, number: number) {
    this.#parts = parts
    this.number = number
    this.#timer = setInterval(() => this.touch(), TOUCH_EVERY_MS).unref()
  }

  /** Rejects with a message for people if another process holds it. */
  static async take(given: LockParts): Promise<FolderLock> {
    const { folder, disk, surroundings } = given
    const parts: Here = { ...given, inode: (await disk.stat(folder)).ino }
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const found = await look(parts)
      if (found !== undefined) await refuseIfHeld(parts, found)
      const number = (found?.number ?? 0) + 1
      if (!(await make(parts, number))) continue
      const numbers = lockNumbers(await disk.readdir(folder))
      if (Math.max(...numbers) === number) {
        const lock = new FolderLock(parts, number)
        // The lock is taken: what cannot be removed now is removed by the next holder.
        await lock.sweep().catch(() => undefined)
        return lock
      }
      // Somebody was here and gone while we looked: ours is not the newest.
      await removeIfThere(disk, join(folder, `lock.${number}`))
    }
    const { pid } = surroundings.self
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
  async lostBecause(): Promise<string | undefined> {
    const { folder, surroundings } = this.#parts
    let newest: Found | undefined
    try {
      newest = await look(this.#parts)
    } catch (error) {
      const message = `${folder}: its lock could not be looked at: ${reasonOf(error)}`
      throw new Error(message, { cause: error })
    }
    const number = newest?.number ?? 0
    // The number alone tells nothing in a folder that was removed and made anew.
    if (number === this.number && newest?.holder?.id === surroundings.self.id) return undefined
    const what = number >= this.number ? 'another process took it over' : 'it was removed'
    return `${join(folder, this.name())}: this process no longer holds the lock: ${what}; restart it`
  }

  /** A lock that is another's by now is left alone. */
  async release(): Promise<void> {
    const { folder, disk, surroundings, inode } = this.#parts
    clearInterval(this.#timer)
    await this.#touching
    if ((await this.lostBecause()) !== undefined) return
    const draft = draftOf(surroundings.self)
    const bytes = Buffer.from(textOf(surroundings.self, inode, true))
    try {
      await writeFile(disk, join(folder, draft), bytes)
      await disk.rename(join(folder, draft), join(folder, this.name()))
    } catch (error) {
      await removeIfThere(disk, join(folder, draft)).catch(() => undefined)
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
    const { folder, disk, surroundings, inode } = this.#parts
    const write = async () => {
      this.#problem = await this.lostBecause().catch(messageOf)
      if (this.#problem !== undefined) return
      const file = await disk.open(join(folder, this.name()), 'r+')
      try {
        await writeAll(file, Buffer.from(textOf(surroundings.self, inode, false)))
      } finally {
        await file.close()
      }
    }
    // Whether the lock still holds is asked before every commit; nothing is to be done here.
    this.#touching = this.#touching.then(write).catch(() => undefined)
  }

  /** What earlier holders left behind, and those that failed to become one. */
  private async sweep(): Promise<void> {
    const { folder, disk } = this.#parts
    for (const name of await disk.readdir(folder)) {
      const isOld = Number(NAME.exec(name)?.[1] ?? Infinity) < this.number
      if (isOld || DRAFT.test(name)) await removeIfThere(disk, join(folder, name))
    }
  }
}

/** The newest lock there is. */
async function look({ folder, disk, inode }: Here): Promise<Found | undefined> {
  for (;;) {
    const number = Math.max(0, ...lockNumbers(await disk.readdir(folder)))
    if (number === 0) return undefined
    const path = join(folder, `lock.${number}`)
    try {
      const { mtimeMs } = await disk.stat(path)
      const text = await readText(disk, path, LOCK_BYTES_MAX)
      if (text !== undefined) return { number, touchedMs: mtimeMs, ...parse(text, inode) }
    } catch (error) {
      // Gone: its successor removed it.
      if (codeOf(error) !== 'ENOENT') throw error
    }
  }
}

async function refuseIfHeld(parts: Here, first: Found): Promise<void> {
  const { folder, wait, onWaiting } = parts
  const file = join(folder, `lock.${first.number}`)
  let isTold = false
  let waitedMs = 0
  for (let now = first; ; ) {
    // Its own: a release that failed on a full disk left it there.
    if (now.isReleased || now.holder?.id === parts.surroundings.self.id) return
    const life = lifeOf(parts, now)
    if (life === 'dead') return
    const hasMoved = now.number !== first.number || now.touchedMs !== first.touchedMs
    if (life === 'alive' || hasMoved) throw heldBy(folder, file, now.holder)
    const silentMs = await silenceOf(parts, now)
    // A clock that was put back meanwhile tells nothing; what was waited for does.
    if (Math.max(silentMs, waitedMs) >= SILENT_MS_MAX) return
    if (!isTold) onWaiting(`${file}: waiting to see whether its holder is still there`)
    isTold = true
    await wait(LOOK_EVERY_MS)
    waitedMs += LOOK_EVERY_MS
    const next = await look(parts)
    if (next === undefined) return
    now = next
  }
}

function lifeOf({ surroundings }: Here, { holder, isOfFolder }: Found): Life {
  if (holder === undefined) return 'unknown'
  const life = surroundings.lifeOf(holder)
  // It lives, but nothing says that it is here.
  return life === 'alive' && !isOfFolder ? 'unknown' : life
}

function heldBy(folder: string, file: string, holder: Holder | undefined): Error {
  const who =
    holder === undefined
      ? 'another process'
      : `process ${holder.pid} on ${holder.host} (Sluice ${holder.release})`
  return new Error(
    `${folder}: ${who} uses it (${file}). Stop that one, or give this one another SLUICE_DATA_DIR; for several nodes with the same rules, set SLUICE_DATABASE_URL on all of them`,
  )
}

/**
 * Returns how long a holder has been silent by the clock of the file system: clocks of two machines
 * need not agree. 0 where that clock cannot be read because nothing can be written.
 */
async function silenceOf(
  { folder, disk, surroundings }: LockParts,
  { touchedMs }: Found,
): Promise<number> {
  const path = join(folder, draftOf(surroundings.self))
  try {
    await writeFile(disk, path, Buffer.from('now'))
    return (await disk.stat(path)).mtimeMs - touchedMs
  } catch (error) {
    if (isUnwritable(error)) return 0
    throw error
  } finally {
    await removeIfThere(disk, path).catch(() => undefined)
  }
}

/** Whole from its first moment; false: there is one of that number. */
async function make(parts: Here, number: number): Promise<boolean> {
  const { folder, disk, surroundings, inode } = parts
  const draft = join(folder, draftOf(surroundings.self))
  try {
    await writeFile(disk, draft, Buffer.from(textOf(surroundings.self, inode, false)))
    await disk.link(draft, join(folder, `lock.${number}`))
    return true
  } catch (error) {
    // Without the draft: who holds the lock by now swept it away.
    if (codeOf(error) === 'EEXIST' || codeOf(error) === 'ENOENT') return false
    throw error
  } finally {
    // A draft that stays is swept by the next holder; on a full disk it must not pile up.
    await removeIfThere(disk, draft).catch(() => undefined)
  }
}

function lockNumbers(names: readonly string[]): readonly number[] {
  return names.flatMap((name) => Number(NAME.exec(name)?.[1] ?? Number.NaN) || [])
}

function draftOf({ id }: Holder): string {
  return `lock.new-${id}`
}

interface Written extends Holder {
  readonly folder?: number
  readonly isReleased: boolean
}

function textOf(holder: Holder, folder: number, isReleased: boolean): string {
  return `${JSON.stringify({ ...holder, folder, isReleased } satisfies Written)}\n`
}

function parse(text: string, inode: number): Pick<Found, 'holder' | 'isReleased' | 'isOfFolder'> {
  try {
    const { isReleased, folder = inode, ...holder } = JSON.parse(text) as Written
    const isHolder = typeof holder.pid === 'number'
    return { holder: isHolder ? holder : undefined, isReleased, isOfFolder: folder === inode }
  } catch {
    return { holder: undefined, isReleased: false, isOfFolder: true }
  }
}

/**
 * Tells when the content of a file changes.
 *
 * The directory is watched, so that a change is seen at once however it was made: written in place,
 * moved over the old file, or a symbolic link turned elsewhere, as Kubernetes does it. No system
 * tells of all of these everywhere, so the file is looked at regularly as well.
 */
import { createHash } from 'node:crypto'
import { type FSWatcher, watch } from 'node:fs'
import { dirname } from 'node:path'
import { readIdentity, readWholeFile, type WholeFile } from './read-whole-file.js'

export interface FileWatcher {
  /** Looks now; settles when that is done and told of. Never rejects. */
  check(): Promise<void>
  close(): void
}

export interface WatchOptions {
  /** What the owner has read already. @default nothing: the first content found is told of */
  readonly known?: string | undefined
  /**
   * The file is gone, too large or unreadable, and what was read last holds. Told once; when the
   * file is good again its content is told of, changed or not.
   */
  readonly onError: (error: Error) => void
  /** How often the file is looked at. @default 1000 */
  readonly pollMs?: number | undefined
}

const POLL_MS = 1000
/** A file that did not change for so long is written to its end. */
const SETTLE_MS = 50
/** A file that is written to for longer is left to the next look. */
const SETTLE_ROUNDS_MAX = 20

export function watchFile(
  path: string,
  onChange: (text: string) => void,
  options: WatchOptions,
): FileWatcher {
  return new PollingFileWatcher(path, onChange, options)
}

class PollingFileWatcher implements FileWatcher {
  readonly #path: string
  readonly #onChange: (text: string) => void
  readonly #onError: (error: Error) => void
  readonly #poll: NodeJS.Timeout
  #watcher: FSWatcher | undefined
  #checkTimer: NodeJS.Timeout | undefined
  #checking: Promise<void> | undefined
  #checkingAgain: Promise<void> | undefined
  /** Of the content that was told of last. */
  #digest: string | undefined
  /** Of the file that held it. */
  #identity: string | undefined
  /** Whether that file was read once more when its times could no longer hide a change. */
  #isSure = false
  #hasFailed = false
  #isClosed = false

  constructor(
    path: string,
    onChange: (text: string) => void,
    { known, onError, pollMs = POLL_MS }: WatchOptions,
  ) {
    this.#path = path
    this.#onChange = onChange
    this.#onError = onError
    if (known !== undefined) this.#digest = digestOf(known)
    this.watchDirectory()
    this.#poll = setInterval(() => {
      this.watchDirectory()
      void this.check()
    }, pollMs).unref()
    void this.check()
  }

  check(): Promise<void> {
    if (this.#checking === undefined) {
      this.#checking = this.checkOnce().finally(() => {
        this.#checking = undefined
      })
      return this.#checking
    }
    // A look under way may have passed by what is asked for now; one more is enough for all.
    this.#checkingAgain ??= this.#checking.then(() => {
      this.#checkingAgain = undefined
      return this.check()
    })
    return this.#checkingAgain
  }

  close(): void {
    this.#isClosed = true
    clearInterval(this.#poll)
    clearTimeout(this.#checkTimer)
    this.#watcher?.close()
  }

  private async checkOnce(): Promise<void> {
    try {
      if (this.#isClosed || !(await this.mayDiffer())) return
      const found = await this.readSettled()
      if (found !== undefined && !this.#isClosed) this.accept(found)
    } catch (error) {
      this.fail(error)
    }
  }

  private async mayDiffer(): Promise<boolean> {
    if (this.#identity === undefined || this.#hasFailed) return true
    if ((await readIdentity(this.#path)) !== this.#identity) return true
    // The times of files are coarse: what was written in the tick of the last reading looks the
    // same. So a file is read once more, later.
    if (this.#isSure) return false
    this.#isSure = true
    const { text } = await readWholeFile(this.#path)
    return digestOf(text) !== this.#digest
  }

  /** The file once two readings with a pause between them are the same. */
  private async readSettled(): Promise<WholeFile | undefined> {
    let last = await readWholeFile(this.#path)
    for (let round = 0; round < SETTLE_ROUNDS_MAX && !this.#isClosed; round++) {
      await pause(SETTLE_MS)
      const next = await readWholeFile(this.#path)
      if (next.identity === last.identity && next.text === last.text) return next
      last = next
    }
    return undefined
  }

  private accept({ text, identity }: WholeFile): void {
    const digest = digestOf(text)
    const isNews = digest !== this.#digest || this.#hasFailed
    this.#digest = digest
    this.#identity = identity
    this.#isSure = false
    this.#hasFailed = false
    if (!isNews) return
    try {
      this.#onChange(text)
    } catch (error) {
      this.#onError(errorOf(error))
    }
  }

  private fail(error: unknown): void {
    // The directory may be another one when the file comes back.
    this.#watcher?.close()
    this.#watcher = undefined
    if (this.#hasFailed || this.#isClosed) return
    this.#hasFailed = true
    this.#onError(errorOf(error))
  }

  private watchDirectory(): void {
    if (this.#watcher !== undefined) return
    try {
      const watcher = watch(dirname(this.#path), { persistent: false }, () => this.checkSoon())
      watcher.on('error', () => {
        watcher.close()
        if (this.#watcher === watcher) this.#watcher = undefined
      })
      this.#watcher = watcher
    } catch {
      // Without the directory, or with too many watchers in the system, the timer has to do.
    }
  }

  /** Changes come in swarms, and of other files too: one look answers all of them. */
  private checkSoon(): void {
    this.#checkTimer ??= setTimeout(() => {
      this.#checkTimer = undefined
      void this.check()
    }, SETTLE_MS).unref()
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref()
  })
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function errorOf(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}

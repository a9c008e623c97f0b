/**
 * Notifies its owner when the content of a file changes.
 *
 * It watches the directory, to notice every kind of change at once: written in place, replaced by a
 * rename, or a symbolic link that points elsewhere, as Kubernetes does it. No system reports all of
 * these everywhere, so the file is polled as well.
 */
import type { FSWatcher } from 'node:fs'
import { type FileModules, fileModules } from './builtin-modules.js'
import { readIdentity, readWholeFile, type WholeFile } from './read-whole-file.js'

export interface FileWatcher {
  /** Polls now; settles after the owner was notified. Never rejects. */
  check(): Promise<void>
  close(): void
}

export interface WatchOptions {
  /** The content that the owner has already. @default none: the first content is reported */
  readonly known?: string | undefined
  /**
   * Called once when the file is missing, too large or unreadable; the last content stays valid.
   * When the file is readable again its content is reported, changed or not.
   */
  readonly onError: (error: Error) => void
  /** The polling interval. @default 1000 */
  readonly pollMs?: number | undefined
}

const POLL_MS = 1000
/** After this time without a change, a file counts as completely written. */
const SETTLE_MS = 50
/** A file that is still being written after this time is left to the next poll. */
const SETTLE_ROUNDS_MAX = 20

export function watchFile(
  path: string,
  onChange: (text: string) => void,
  options: WatchOptions,
): FileWatcher {
  return new PollingFileWatcher(path, onChange, options)
}

class PollingFileWatcher implements FileWatcher {
  readonly #modules: FileModules = fileModules()
  readonly #path: string
  readonly #onChange: (text: string) => void
  readonly #onError: (error: Error) => void
  readonly #poll: NodeJS.Timeout
  #watcher: FSWatcher | undefined
  #checkTimer: NodeJS.Timeout | undefined
  #checking: Promise<void> | undefined
  #checkingAgain: Promise<void> | undefined
  /** The digest of the content that was last reported. */
  #digest: string | undefined
  /** The identity of the file that contained it. */
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
    if (known !== undefined) this.#digest = this.digestOf(known)
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
    // A poll that is running may have missed this change; one more is enough for all requests.
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
    // The times of files are coarse: a write in the same tick as the last read looks unchanged. So
    // a file is read once more, later.
    if (this.#isSure) return false
    this.#isSure = true
    const { text } = await readWholeFile(this.#path)
    return this.digestOf(text) !== this.#digest
  }

  /** Reads the file until two reads with a pause between them are equal. */
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
    const digest = this.digestOf(text)
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

  private digestOf(text: string): string {
    return this.#modules.crypto.createHash('sha256').update(text).digest('hex')
  }

  private fail(error: unknown): void {
    // The directory may have been replaced when the file reappears.
    this.#watcher?.close()
    this.#watcher = undefined
    if (this.#hasFailed || this.#isClosed) return
    this.#hasFailed = true
    this.#onError(errorOf(error))
  }

  private watchDirectory(): void {
    if (this.#watcher !== undefined) return
    const { fs, path } = this.#modules
    try {
      const folder = path.dirname(this.#path)
      const watcher = fs.watch(folder, { persistent: false }, () => this.checkSoon())
      watcher.on('error', () => {
        watcher.close()
        if (this.#watcher === watcher) this.#watcher = undefined
      })
      this.#watcher = watcher
    } catch {
      // Without the directory, or with too many watchers in the system, only the timer polls.
    }
  }

  /** Events come in bursts, and for other files too: one poll handles all of them. */
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

function errorOf(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}

/**
 * Follows a directory with the configuration of envoyproxy/ratelimit. A change is active on this
 * node a moment after it is complete; one with errors changes nothing.
 *
 * The folders are watched, to notice a change at once, and the directory is polled, as no system
 * reports all changes: a link above the directory that points elsewhere, or a network volume.
 */
import { createHash } from 'node:crypto'
import { type FSWatcher, watch } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { messageOf } from '../../../lib/message-of.js'
import type { Log } from '../../../observability/log/logger.js'
import { ActiveConfig } from './active-config.js'
import type { EnvoyConfig, EnvoyConfigSource } from './config-source.js'
import { parseConfigFiles } from './parse-directory.js'
import {
  type ConfigFile,
  type ConfigListing,
  type ConfigSnapshot,
  listConfigFiles,
  readConfigFiles,
} from './read-directory.js'

export interface DirectorySource extends EnvoyConfigSource {
  /** Polls now. Never rejects. */
  check(): Promise<void>
}

export interface DirectorySourceOptions {
  readonly directory: string
  /** Whether several files may have one domain. @default false */
  readonly mergeDomains?: boolean | undefined
  /** The polling interval; 0 for none. @default 1000 */
  readonly pollMs?: number | undefined
}

export interface DirectorySourceDeps {
  readonly log: Log
  /** Replaceable in tests. */
  readonly pause?: ((ms: number) => Promise<void>) | undefined
}

const POLL_MS = 1000
/** After this time without a change, the files count as completely written. */
const SETTLE_MS = 50
/** Files that are still being written after this time are left to the next poll. */
const SETTLE_ROUNDS_MAX = 20

/** Resolves after the first load, whether or not it succeeded: `problem` says. */
export async function followConfigDirectory(
  options: DirectorySourceOptions,
  deps: DirectorySourceDeps,
): Promise<DirectorySource> {
  const source = new WatchedDirectory(options, deps)
  await source.check()
  return source
}

class WatchedDirectory implements DirectorySource {
  readonly #directory: string
  readonly #mergeDomains: boolean
  readonly #config: ActiveConfig
  readonly #pause: (ms: number) => Promise<void>
  readonly #poll: NodeJS.Timeout | undefined
  readonly #watchers = new Map<string, FSWatcher>()
  #checkTimer: NodeJS.Timeout | undefined
  #checking: Promise<void> | undefined
  #checkingAgain: Promise<void> | undefined
  #activeDigest: string | undefined
  /** The files that were parsed last, valid or not. */
  #digest: string | undefined
  #identity: string | undefined
  /** Whether they were read once more when their times could no longer hide a change. */
  #isSure = false
  #isClosed = false

  constructor(options: DirectorySourceOptions, { log, pause = wait }: DirectorySourceDeps) {
    const { directory, mergeDomains = false, pollMs = POLL_MS } = options
    this.#directory = resolve(directory)
    this.#mergeDomains = mergeDomains
    this.#config = new ActiveConfig(log, { directory: this.#directory })
    this.#pause = pause
    if (pollMs > 0) this.#poll = setInterval(() => void this.check(), pollMs).unref()
  }

  current(): EnvoyConfig | undefined {
    return this.#config.current()
  }

  problem(): string | undefined {
    return this.#config.problem()
  }

  loads(): number {
    return this.#config.loads()
  }

  failures(): number {
    return this.#config.failures()
  }

  onChange(listener: (config: EnvoyConfig) => void): void {
    this.#config.onChange(listener)
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

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#poll)
    clearTimeout(this.#checkTimer)
    this.watchFolders([])
    await this.#checking
  }

  private async checkOnce(): Promise<void> {
    if (this.#isClosed) return
    try {
      const { identity, folders } = await this.listSettled()
      this.watchFolders([dirname(this.#directory), ...folders])
      if (identity === this.#identity && this.#isSure) return
      // The times of files are coarse: a write in the same tick as the last read looks unchanged.
      // So they are read once more, later.
      this.#isSure = identity === this.#identity
      const snapshot = await this.readSettled()
      if (snapshot === undefined || this.#isClosed) return
      this.#identity = snapshot.identity
      await this.accept(snapshot.files)
    } catch (error) {
      this.#identity = undefined
      // It may come back as it was before, and is then to be active again.
      this.#digest = undefined
      this.watchFolders([dirname(this.#directory)])
      if (!this.#isClosed) this.#config.failOnce(messageOf(error))
    }
  }

  /** Lists the files; once more if one of them was being replaced at that moment. */
  private async listSettled(): Promise<ConfigListing> {
    try {
      return await listConfigFiles(this.#directory)
    } catch {
      await this.#pause(SETTLE_MS)
      return listConfigFiles(this.#directory)
    }
  }

  /** Reads until nothing changed within a pause: a volume may be replaced while it is read. */
  private async readSettled(): Promise<ConfigSnapshot | undefined> {
    let last = await this.readFiles()
    for (let round = 0; round < SETTLE_ROUNDS_MAX && !this.#isClosed; round++) {
      await this.#pause(SETTLE_MS)
      const next = await this.readFiles()
      if (next.identity === last.identity && digestOf(next.files) === digestOf(last.files)) {
        return next
      }
      last = next
    }
    return undefined
  }

  private async readFiles(): Promise<ConfigSnapshot> {
    const { files } = await this.listSettled()
    return readConfigFiles(files)
  }

  private async accept(files: readonly ConfigFile[]): Promise<void> {
    const digest = digestOf(files)
    if (digest === this.#digest) return
    this.#digest = digest
    this.#isSure = false
    // A folder may be another one of the same name, and is then watched anew at the next poll.
    this.watchFolders([])
    if (digest === this.#activeDigest) return this.#config.clearProblem()
    const mergeDomains = this.#mergeDomains
    const parsed = await parseConfigFiles(files, { mergeDomains })
    if (this.#isClosed) return
    if (this.#config.accept(parsed, { files: files.length })) this.#activeDigest = digest
  }

  /** Watches these folders and no others. */
  private watchFolders(folders: readonly string[]): void {
    for (const [folder, watcher] of this.#watchers) {
      if (folders.includes(folder)) continue
      watcher.close()
      this.#watchers.delete(folder)
    }
    // Without polls everything is up to `check`.
    if (this.#poll === undefined || this.#isClosed) return
    for (const folder of folders) if (!this.#watchers.has(folder)) this.watchFolder(folder)
  }

  private watchFolder(folder: string): void {
    try {
      const watcher = watch(folder, { persistent: false }, () => this.checkSoon())
      watcher.on('error', () => {
        watcher.close()
        if (this.#watchers.get(folder) === watcher) this.#watchers.delete(folder)
      })
      this.#watchers.set(folder, watcher)
    } catch {
      // Without the folder, or with too many watchers in the system, only the timer polls.
    }
  }

  /** Events come in bursts: one poll handles all of them. */
  private checkSoon(): void {
    this.#checkTimer ??= setTimeout(() => {
      this.#checkTimer = undefined
      void this.check()
    }, SETTLE_MS).unref()
  }
}

function digestOf(files: readonly ConfigFile[]): string {
  const hash = createHash('sha256')
  for (const { file, text } of files) hash.update(`${file.length} ${text.length} ${file} ${text}`)
  return hash.digest('hex')
}

function wait(ms: number): Promise<void> {
  return new Promise((done) => {
    // Not unref: at the start of a server nothing else may keep the process running yet.
    setTimeout(done, ms)
  })
}

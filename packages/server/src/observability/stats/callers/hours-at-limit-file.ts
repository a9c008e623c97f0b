/**
 * Stores the hours at the limit in the data directory, so that they survive a restart: written
 * every few minutes and at shutdown, read at startup.
 */
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { WallClock } from '../../../lib/wall-clock.js'
import { draftOf, PeriodicFile } from '../../../lib/periodic-file.js'
import type { Log } from '../../log/logger.js'
import { messageOf } from '../../../lib/message-of.js'
import type { NameProtection } from '../name-protection.js'
import type { CallerTracker } from './caller-tracker.js'
import { hasClearNames } from './hours-at-limit-codec.js'

export interface HoursFileDeps {
  readonly callers: Pick<CallerTracker, 'save' | 'restore' | 'held'>
  readonly dataDir: string
  /** How the names of callers are stored. */
  readonly names: NameProtection
  readonly log: Log
  readonly clock: WallClock
  /** The place of this process among several; each has its own file. @default 0 */
  readonly index?: number | undefined
  /** The number of processes; files of further ones are leftovers. @default 1 */
  readonly processes?: number | undefined
}

const FILE = 'callers-24h'
/** The files of further processes, including drafts. */
const OTHER_FILE = /^callers-24h-(\d{1,4})\.json(?:\.new)?$/
const EVERY_MS = 300_000
const UNUSABLE = 'caller hours: cannot restore the file, counting starts anew'

export class HoursFile {
  readonly #deps: HoursFileDeps
  readonly #file: string
  readonly #periodicFile: PeriodicFile<string>
  #hasFailed = false
  /** Whether a file exists, which must be updated even when there are no callers left. */
  #hasFile = false
  /** Whether the file contains names in a form no longer allowed, and is rewritten at once. */
  #mustRewrite = false
  /** The last content, and its plain form to detect changes: encryption is never the same. */
  #last: { readonly clear: string; readonly stored: string } | undefined

  constructor(deps: HoursFileDeps) {
    const { dataDir, index = 0 } = deps
    this.#deps = deps
    this.#file = join(dataDir, index === 0 ? `${FILE}.json` : `${FILE}-${index}.json`)
    this.#periodicFile = new PeriodicFile({
      file: this.#file,
      everyMs: EVERY_MS,
      content: () => this.content(),
      onDone: (failure) => this.done(failure),
    })
  }

  /** Reads the file. An invalid file does not prevent the start. */
  restore(): void {
    const { callers, log, clock, names } = this.#deps
    const file = this.#file
    this.removeLeftovers()
    try {
      const text = readFileSync(file, 'utf8')
      this.#hasFile = true
      // Assumed until the file is known to be readable and free of plain names.
      this.#mustRewrite = names.form !== 'clear'
      const count = callers.restore(text, clock.now(), names)
      if (names.form === 'clear' || !hasClearNames(text)) {
        this.#mustRewrite = false
        this.#periodicFile.markSaved(text)
      }
      log.info({ file, callers: count }, 'caller hours: restored')
    } catch (error) {
      const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
      if (!isMissing) log.warn({ file, error: messageOf(error) }, UNUSABLE)
    }
  }

  /**
   * Removes drafts of a crash, and files of processes that no longer exist: an earlier release may
   * have written names into them, and nothing else would remove them.
   */
  private removeLeftovers(): void {
    const { dataDir, names, index = 0, processes = 1 } = this.#deps
    const unread = index === 0 && names.form !== 'clear' ? filesFrom(dataDir, processes) : []
    for (const file of [draftOf(this.#file), ...unread]) {
      try {
        rmSync(file, { force: true })
      } catch {
        // A read-only disk; the first failing save is logged.
      }
    }
  }

  start(): void {
    this.#periodicFile.start()
    if (this.#mustRewrite) void this.#periodicFile.save()
  }

  save(): Promise<void> {
    return this.#periodicFile.save()
  }

  close(): Promise<void> {
    return this.#periodicFile.close()
  }

  /** Returns undefined as long as no caller ever reached a limit. */
  private content(): string | undefined {
    const { callers, names } = this.#deps
    if (!this.#hasFile && callers.held.hours === 0) return undefined
    this.#hasFile = true
    const clear = callers.save({ ...names, form: 'clear' })
    if (this.#last?.clear !== clear) this.#last = { clear, stored: callers.save(names) }
    return this.#last.stored
  }

  /** Logs the first failure only: on a read-only disk every save fails. */
  private done(failure: unknown): void {
    const wasFailing = this.#hasFailed
    this.#hasFailed = failure !== undefined
    if (failure === undefined || wasFailing) return
    const fields = { file: this.#file, error: messageOf(failure) }
    const { log } = this.#deps
    log.warn(fields, 'caller hours: cannot save, a restart will lose them')
  }
}

/** The files of processes from a place on. */
function filesFrom(dataDir: string, place: number): readonly string[] {
  try {
    return readdirSync(dataDir)
      .filter((name) => Number(OTHER_FILE.exec(name)?.[1] ?? -1) >= place)
      .map((name) => join(dataDir, name))
  } catch {
    return []
  }
}

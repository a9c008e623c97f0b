/**
 * The hours of callers in the data directory, so that a restart forgets nobody: written every few
 * minutes and at the end, read at the start.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { WallClock } from '../../clock.js'
import { KeptFile } from '../../files/kept-file.js'
import type { Log } from '../../log/logger.js'
import { messageOf } from '../../message-of.js'
import type { CallerTracker } from './caller-tracker.js'

export interface HoursFileParts {
  readonly callers: Pick<CallerTracker, 'save' | 'restore' | 'held'>
  readonly dataDir: string
  readonly log: Log
  readonly clock: WallClock
  /** Of a process among several: each has a file of its own. @default 0 */
  readonly index?: number | undefined
}

const FILE = 'callers-24h'
const EVERY_MS = 300_000
const UNUSABLE = 'hours of callers at their limit could not be restored; they are counted anew'

export class HoursFile {
  readonly #parts: HoursFileParts
  readonly #file: string
  readonly #kept: KeptFile<string>
  #hasFailed = false
  /** Whether there is a file of callers, which forgets them when they are forgotten. */
  #hasFile = false

  constructor(parts: HoursFileParts) {
    const { dataDir, index = 0 } = parts
    this.#parts = parts
    this.#file = join(dataDir, index === 0 ? `${FILE}.json` : `${FILE}-${index}.json`)
    this.#kept = new KeptFile({
      file: this.#file,
      everyMs: EVERY_MS,
      content: () => this.content(),
      onDone: (failure) => this.done(failure),
    })
  }

  /** A file that cannot be used is no reason not to start. */
  restore(): void {
    const { callers, log, clock } = this.#parts
    const file = this.#file
    try {
      const text = readFileSync(file, 'utf8')
      const count = callers.restore(text, clock.now())
      this.#kept.holds(text)
      this.#hasFile = true
      log.info({ file, callers: count }, 'hours of callers at their limit restored')
    } catch (error) {
      const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
      if (!isMissing) log.warn({ file, error: messageOf(error) }, UNUSABLE)
    }
  }

  start(): void {
    this.#kept.start()
  }

  save(): Promise<void> {
    return this.#kept.save()
  }

  close(): Promise<void> {
    return this.#kept.close()
  }

  /** Where nobody ever came to a limit there is nothing to write. */
  private content(): string | undefined {
    const { callers } = this.#parts
    if (!this.#hasFile && callers.held.hours === 0) return undefined
    this.#hasFile = true
    return callers.save()
  }

  /** Told once: on a read-only disk it will be the same the next time. */
  private done(failure: unknown): void {
    const wasFailing = this.#hasFailed
    this.#hasFailed = failure !== undefined
    if (failure === undefined || wasFailing) return
    const fields = { file: this.#file, error: messageOf(failure) }
    const { log } = this.#parts
    log.warn(fields, 'hours of callers at their limit not saved; a restart forgets them')
  }
}

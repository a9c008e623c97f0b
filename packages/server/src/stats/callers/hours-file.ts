/**
 * The hours of callers in the data directory, so that a restart forgets nobody: written every few
 * minutes and at the end, read at the start.
 */
import { readFileSync } from 'node:fs'
import { mkdir, open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import type { WallClock } from '../../clock.js'
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
  #timer: NodeJS.Timeout | undefined
  /** What the file holds; undefined: nothing that we wrote or read. */
  #written: string | undefined
  #saving: Promise<void> | undefined
  #hasFailed = false

  constructor(parts: HoursFileParts) {
    const { dataDir, index = 0 } = parts
    this.#parts = parts
    this.#file = join(dataDir, index === 0 ? `${FILE}.json` : `${FILE}-${index}.json`)
  }

  /** A file that cannot be used is no reason not to start. */
  restore(): void {
    const { callers, log, clock } = this.#parts
    const file = this.#file
    try {
      const text = readFileSync(file, 'utf8')
      const count = callers.restore(text, clock.now())
      this.#written = text
      log.info({ file, callers: count }, 'hours of callers at their limit restored')
    } catch (error) {
      const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
      if (!isMissing) log.warn({ file, error: messageOf(error) }, UNUSABLE)
    }
  }

  start(): void {
    this.#timer = setInterval(() => void this.save(), EVERY_MS).unref()
  }

  /** Never rejects, and never runs twice at a time. */
  save(): Promise<void> {
    this.#saving ??= this.write()
      .catch((error: unknown) => this.fail(error))
      .finally(() => {
        this.#saving = undefined
      })
    return this.#saving
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#saving
    await this.save()
  }

  private async write(): Promise<void> {
    const { callers, dataDir } = this.#parts
    // Nobody to tell of, and no file that says otherwise.
    if (this.#written === undefined && callers.held.hours === 0) return
    const text = callers.save()
    if (text === this.#written) return
    await mkdir(dataDir, { recursive: true, mode: 0o700 })
    const draft = `${this.#file}.new`
    const handle = await open(draft, 'w', 0o600)
    try {
      await handle.writeFile(text)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(draft, this.#file)
    this.#written = text
    this.#hasFailed = false
  }

  /** Told once: on a read-only disk it will be the same the next time. */
  private fail(error: unknown): void {
    if (this.#hasFailed) return
    this.#hasFailed = true
    const fields = { file: this.#file, error: messageOf(error) }
    this.#parts.log.warn(
      fields,
      'hours of callers at their limit not saved; a restart forgets them',
    )
  }
}

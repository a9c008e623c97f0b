/**
 * The counters of durable rules beside a memory store: written to the data directory every few
 * seconds and at the end, read at the start. What a crash loses is what the last seconds took.
 */
import { readFileSync } from 'node:fs'
import { mkdir, open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import type { MemoryStore } from '@sluice/limiter'
import type { WallClock } from '../clock.js'
import type { Log } from '../log/logger.js'
import { createThrottle, type Throttle } from '../log/throttle.js'

export interface SnapshotParts {
  readonly store: Pick<MemoryStore, 'snapshot' | 'restore'>
  readonly dataDir: string
  readonly log: Log
  readonly clock: WallClock
  /** Whether a rule in force asks for it. */
  readonly hasDurable: () => boolean
}

const FILE = 'counters.snapshot'
const EVERY_MS = 5000
const UNUSABLE = 'counters of durable rules could not be restored; they begin empty'

export class Snapshots {
  readonly #parts: SnapshotParts
  readonly #file: string
  readonly #throttle: Throttle
  #timer: NodeJS.Timeout | undefined
  /** What the file holds; undefined: nothing that we wrote. */
  #written: Uint8Array | undefined
  #saving: Promise<void> | undefined

  constructor(parts: SnapshotParts) {
    this.#parts = parts
    this.#file = join(parts.dataDir, FILE)
    this.#throttle = createThrottle(parts.clock)
  }

  /** A file that cannot be used is no reason not to start: budgets are then whole again. */
  restore(): void {
    const { store, log } = this.#parts
    const file = this.#file
    try {
      const counters = store.restore(readFileSync(file))
      log.info({ file, counters }, 'counters of durable rules restored')
    } catch (error) {
      const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
      if (!isMissing) log.warn({ file, error: String(error) }, UNUSABLE)
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

  /** With what the last calls took. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#saving
    await this.save()
  }

  private async write(): Promise<void> {
    const { store, dataDir, hasDurable } = this.#parts
    if (!hasDurable()) return
    const bytes = store.snapshot()
    if (this.#written !== undefined && Buffer.compare(bytes, this.#written) === 0) return
    await mkdir(dataDir, { recursive: true, mode: 0o700 })
    const draft = `${this.#file}.new`
    const handle = await open(draft, 'w', 0o600)
    try {
      await handle.writeFile(bytes)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(draft, this.#file)
    this.#written = bytes
  }

  private fail(error: unknown): void {
    const passed = this.#throttle.pass('save')
    if (passed === undefined) return
    const { log } = this.#parts
    log.warn({ file: this.#file, error: String(error) }, 'counters of durable rules not saved')
  }
}

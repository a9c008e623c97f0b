/**
 * The counters of durable rules beside a memory store: written to the data directory every few
 * seconds and at the end, read at the start. What a crash loses is what the last seconds took.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { MemoryStore } from '@sluice/limiter'
import type { WallClock } from '../clock.js'
import { KeptFile } from '../files/kept-file.js'
import type { Log } from '../log/logger.js'
import { createThrottle } from '../log/throttle.js'
import { messageOf } from '../message-of.js'

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
  readonly #kept: KeptFile<Uint8Array>

  constructor(parts: SnapshotParts) {
    const { store, dataDir, hasDurable, log, clock } = parts
    const file = join(dataDir, FILE)
    const throttle = createThrottle(clock)
    this.#parts = parts
    this.#file = file
    this.#kept = new KeptFile({
      file,
      everyMs: EVERY_MS,
      content: () => (hasDurable() ? store.snapshot() : undefined),
      onDone(failure) {
        if (failure === undefined || throttle.pass('save') === undefined) return
        log.warn({ file, error: messageOf(failure) }, 'counters of durable rules not saved')
      },
    })
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
    this.#kept.start()
  }

  save(): Promise<void> {
    return this.#kept.save()
  }

  /** With what the last calls took. */
  close(): Promise<void> {
    return this.#kept.close()
  }
}

/**
 * Saves the counters of durable rules of a memory store to the data directory every few seconds and
 * at shutdown, and restores them at startup. A crash loses the usage of the last seconds.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { MemoryStore } from '@sluice/limiter'
import type { WallClock } from '../lib/wall-clock.js'
import { PeriodicFile } from '../lib/periodic-file.js'
import type { Log } from '../observability/log/logger.js'
import { createThrottle } from '../observability/log/throttle.js'
import { messageOf } from '../lib/message-of.js'

export interface CounterSnapshotsDeps {
  readonly store: Pick<MemoryStore, 'snapshot' | 'restore'>
  readonly dataDir: string
  readonly log: Log
  readonly clock: WallClock
  /** Whether an active rule is durable. */
  readonly hasDurable: () => boolean
}

const FILE = 'counters.snapshot'
const EVERY_MS = 5000
const UNUSABLE = 'durable counters: cannot be restored, starting empty'

export class CounterSnapshots {
  readonly #deps: CounterSnapshotsDeps
  readonly #file: string
  readonly #periodicFile: PeriodicFile<Uint8Array>

  constructor(deps: CounterSnapshotsDeps) {
    const { store, dataDir, hasDurable, log, clock } = deps
    const file = join(dataDir, FILE)
    const throttle = createThrottle(clock)
    this.#deps = deps
    this.#file = file
    this.#periodicFile = new PeriodicFile({
      file,
      everyMs: EVERY_MS,
      content: () => (hasDurable() ? store.snapshot() : undefined),
      onDone(failure) {
        if (failure === undefined || throttle.pass('save') === undefined) return
        log.warn({ file, error: messageOf(failure) }, 'durable counters: not saved')
      },
    })
  }

  /** An unusable file does not prevent the start: budgets are then full again. */
  restore(): void {
    const { store, log } = this.#deps
    const file = this.#file
    try {
      const counters = store.restore(readFileSync(file))
      log.info({ file, counters }, 'durable counters: restored')
    } catch (error) {
      const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
      if (!isMissing) log.warn({ file, error: String(error) }, UNUSABLE)
    }
  }

  start(): void {
    this.#periodicFile.start()
  }

  save(): Promise<void> {
    return this.#periodicFile.save()
  }

  /** Saves once more, with the usage of the last calls. */
  close(): Promise<void> {
    return this.#periodicFile.close()
  }
}

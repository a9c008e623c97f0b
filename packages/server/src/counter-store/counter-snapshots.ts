/**
 * Saves the counters of durable rules of a memory store to the data directory every few seconds and
 * at shutdown, and restores them at startup. A crash loses the usage of the last seconds.
 */
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { MemoryStore } from '@sluice/limiter'
import type { WallClock } from '../lib/wall-clock.js'
import { PeriodicFile } from '../lib/periodic-file.js'
import type { Log } from '../observability/log/logger.js'
import { createThrottle } from '../observability/log/throttle.js'
import { messageOf } from '../lib/message-of.js'

export interface CounterSnapshotsDeps {
  readonly store: Pick<MemoryStore, 'snapshot' | 'restore'>
  /** Where they are saved: see `snapshotFile`. */
  readonly file: string
  /** Files of processes that no longer run; they are removed once their counters are saved. */
  readonly former?: readonly string[] | undefined
  readonly log: Log
  readonly clock: WallClock
  /** Whether an active rule is durable. */
  readonly hasDurable: () => boolean
}

/** The most workers of a server. */
const PLACES_MAX = 64

/** The file of a process: each worker has its own, as it holds a part of the counters. */
export function snapshotFile(dataDir: string, place = 0): string {
  return join(dataDir, place === 0 ? 'counters.snapshot' : `counters-${place}.snapshot`)
}

/** The files of workers that a server with fewer of them no longer has; the first restores them. */
export function formerSnapshots(dataDir: string, workers: number, place = 0): readonly string[] {
  if (place !== 0) return []
  const places = Array.from({ length: PLACES_MAX - workers }, (_, n) => workers + n)
  return places.map((each) => snapshotFile(dataDir, each)).filter((file) => existsSync(file))
}

const EVERY_MS = 5000
const UNUSABLE = 'durable counters: cannot be restored, starting empty'

export class CounterSnapshots {
  readonly #deps: CounterSnapshotsDeps
  readonly #file: string
  readonly #periodicFile: PeriodicFile<Uint8Array>

  constructor(deps: CounterSnapshotsDeps) {
    const { store, file, hasDurable, log, clock } = deps
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

  restore(): void {
    const { former = [] } = this.#deps
    this.restoreFile(this.#file)
    for (const file of former) this.restoreFile(file)
    if (former.length === 0) return
    void this.save().then(() => {
      for (const file of former) rmSync(file, { force: true })
    })
  }

  /** An unusable file does not prevent the start: budgets are then full again. */
  private restoreFile(file: string): void {
    const { store, log } = this.#deps
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

/** Reads the clocks of the other nodes, in the background and only while a condition needs them. */
import type { PeerClock } from './conditions/clock-offset.js'

/**
 * Nodes publish every two seconds. After the clock of Redis was set, snapshots from before the
 * change would still agree with Redis, so the first read waits for new ones.
 */
const SETTLE_MS = 5000
/** Rare, because while the clock of Redis is off, every node reads every snapshot. */
const READ_EVERY_MS = 60_000
const RETRY_MS = 5000
/** After a pause of this length between two requests, known clocks are discarded. */
const GAP_MS = 5000

export class PeerClocks {
  readonly #read: () => Promise<readonly PeerClock[]>
  #known: readonly PeerClock[] | undefined
  #requestedMs = -Infinity
  #dueMs = -Infinity
  /** Incremented when known clocks are discarded: reads that began earlier are then stale. */
  #generation = 0
  #isReading = false

  constructor(read: () => Promise<readonly PeerClock[]>) {
    this.#read = read
  }

  /** Returns the last reading and starts a new one when due; undefined before the first. */
  latest(nowMs: number): readonly PeerClock[] | undefined {
    // Absolute, because the clock that was set may be the one that this process reads.
    if (Math.abs(nowMs - this.#requestedMs) > GAP_MS) this.invalidate(nowMs)
    this.#requestedMs = nowMs
    if (nowMs >= this.#dueMs && !this.#isReading) {
      this.#dueMs = nowMs + READ_EVERY_MS
      this.#isReading = true
      void this.refresh(nowMs)
    }
    return this.#known
  }

  private invalidate(nowMs: number): void {
    this.#generation++
    this.#known = undefined
    this.#dueMs = nowMs + SETTLE_MS
  }

  private async refresh(nowMs: number): Promise<void> {
    const generation = this.#generation
    try {
      const read = await this.#read()
      if (generation === this.#generation) this.#known = read
    } catch {
      // Conditions do without them until the next read succeeds.
      this.#known = undefined
      if (generation === this.#generation) this.#dueMs = nowMs + RETRY_MS
    } finally {
      this.#isReading = false
    }
  }
}

/** The clocks of the other nodes, read in the background and only while somebody needs them. */
import type { PeerClock } from './conditions/clock-offset.js'

/**
 * Nodes publish what they see every two seconds. Where the clock of Redis was set, all of them
 * notice at once: what they published before that would take the side of Redis.
 */
const SETTLE_MS = 5000
/** Where the clock of Redis is off, all nodes read what all nodes published. */
const READ_EVERY_MS = 60_000
const RETRY_MS = 5000
/** Whoever has not asked for so long needs them anew. */
const GAP_MS = 5000

export class PeerClocks {
  readonly #read: () => Promise<readonly PeerClock[]>
  #known: readonly PeerClock[] | undefined
  #requestedMs = -Infinity
  #dueMs = -Infinity
  /** How often they were needed anew: a reading that began before that tells of the past. */
  #generation = 0
  #isReading = false

  constructor(read: () => Promise<readonly PeerClock[]>) {
    this.#read = read
  }

  /** As they were read last, and reads them again when it is time; undefined before the first. */
  latest(nowMs: number): readonly PeerClock[] | undefined {
    // The clock that tells the time here may be the one that is set.
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
      // They are judged without until the next reading.
      this.#known = undefined
      if (generation === this.#generation) this.#dueMs = nowMs + RETRY_MS
    } finally {
      this.#isReading = false
    }
  }
}

/** Splits long work into short slices, between which calls are decided. */
import { monotonicMs } from './wall-clock.js'

/** The longest that a decision waits for a slice. */
const TURN_MS = 8

export class CooperativeYield {
  #sinceMs = monotonicMs()

  /** Whether the slice is over, so that `pause` is due. Reads the clock. */
  isDue(): boolean {
    return monotonicMs() - this.#sinceMs >= TURN_MS
  }

  async pause(): Promise<void> {
    await new Promise(setImmediate)
    this.#sinceMs = monotonicMs()
  }
}

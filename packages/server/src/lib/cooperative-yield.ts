/** Long work in short turns, between which calls are decided. */
import { monotonicMs } from './wall-clock.js'

/** As long as a few decisions at most wait for. */
const TURN_MS = 8

export class CooperativeYield {
  #sinceMs = monotonicMs()

  /** Whether the others' turn has come: then `pause`. Costs a look at the clock. */
  isDue(): boolean {
    return monotonicMs() - this.#sinceMs >= TURN_MS
  }

  async pause(): Promise<void> {
    await new Promise(setImmediate)
    this.#sinceMs = monotonicMs()
  }
}

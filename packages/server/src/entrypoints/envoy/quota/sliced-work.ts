/**
 * Runs pieces of work in short slices, between which calls are decided: proxies report thousands of
 * buckets at once.
 */
import { CooperativeYield } from '../../../lib/cooperative-yield.js'

export class SlicedWork {
  #pieces: (() => void)[] = []
  #isRunning = false
  /** The slice of this turn of the event loop. */
  #slice: CooperativeYield | undefined

  /** Whether some of it is still to be run. */
  get isBusy(): boolean {
    return this.#isRunning
  }

  get waiting(): number {
    return this.#pieces.length
  }

  /** Runs a piece at once if there is time, else after those that wait. It must not throw. */
  add(piece: () => void): void {
    this.#pieces.push(piece)
    if (!this.#isRunning) void this.run()
  }

  private async run(): Promise<void> {
    this.#isRunning = true
    const slice = this.#slice ?? this.beginSlice()
    while (this.#pieces.length > 0) {
      const pieces = this.#pieces
      this.#pieces = []
      for (const piece of pieces) {
        if (slice.isDue()) await slice.pause()
        piece()
      }
    }
    this.#isRunning = false
  }

  private beginSlice(): CooperativeYield {
    const slice = new CooperativeYield()
    this.#slice = slice
    setImmediate(() => (this.#slice = undefined))
    return slice
  }
}

/** Measures how late the event loop of Node is. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Load } from './load-shedding.js'

/** A timer of this interval is measured; the histogram includes the interval itself. */
const RESOLUTION_MS = 10
const NS_PER_MS = 1e6

export interface LoopLoad {
  /** The load for `createLimiter`: the mean delay of the last second by the one aimed at. */
  readonly load: Load
  /** The mean delay of the last second that was read, in milliseconds. */
  readonly delayMs: number
  close(): void
}

/**
 * Watches the event loop of this process.
 *
 * @example
 * const loop = loopLoad()
 * const limiter = createLimiter({ rules, load: loop.load })
 */
export function loopLoad(): LoopLoad {
  return new EventLoopLoad()
}

class EventLoopLoad implements LoopLoad {
  readonly #histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  #delayMs = 0

  get delayMs(): number {
    return this.#delayMs
  }

  readonly load: Load = ({ loopMs }) => {
    // Watched from the first reading on: without rules that shed it would only cost time.
    this.#histogram.enable()
    const { mean } = this.#histogram
    this.#histogram.reset()
    // Without a sample nothing is known: the timer that reads this came before the measured one.
    if (Number.isFinite(mean)) this.#delayMs = Math.max(0, mean / NS_PER_MS - RESOLUTION_MS)
    return this.#delayMs / loopMs
  }

  close(): void {
    this.#histogram.disable()
  }
}

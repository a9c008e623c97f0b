/** Time that passes only when a test runs it. */
import type { PaceClock } from './clock.js'

export interface VirtualClock extends PaceClock {
  /** Runs everything that is due until an instant, in order. */
  runTo(until: number): Promise<void>
}

export function createVirtualClock(start: number): VirtualClock {
  let now = start
  let timers: { readonly at: number; readonly run: () => void }[] = []
  // Promises that were settled by a timer run before the next one.
  const settle = () => new Promise((resolve) => void setImmediate(resolve))
  return {
    now: () => now,
    after: (ms, run) => {
      const timer = { at: now + ms, run }
      const place = timers.findIndex(({ at }) => at > timer.at)
      timers.splice(place < 0 ? timers.length : place, 0, timer)
      return () => {
        timers = timers.filter((other) => other !== timer)
      }
    },
    runTo: async (until) => {
      await settle()
      for (let first = timers[0]; first && first.at <= until; first = timers[0]) {
        timers.shift()
        now = Math.max(now, first.at)
        first.run()
        await settle()
      }
      now = Math.max(now, until)
    },
  }
}

/** Numbers from 0 to 1 that are the same in every run. */
export function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** Time for the paced fetch, to be replaced in tests. */
export interface PaceClock {
  /** Milliseconds since 1970. */
  now(): number
  /** Calls `run` after `ms`; the result cancels it. */
  after(ms: number, run: () => void): () => void
}

/** The longest time that timers accept. */
const TIMER_MS_MAX = 2 ** 31 - 1

/** Runs on steadily when the clock of the system is set. */
export const systemClock: PaceClock = {
  now: () => performance.timeOrigin + performance.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, Math.min(ms, TIMER_MS_MAX))
    return () => clearTimeout(timer)
  },
}

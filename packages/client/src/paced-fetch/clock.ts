/** Time for the paced fetch, to be replaced in tests. */
export interface PaceClock {
  /** Milliseconds that pass steadily, from any beginning. */
  now(): number
  /** Milliseconds since 1970, for instants that a server names. @default now */
  date?(): number
  /** Calls `run` after `ms`; the result cancels it. */
  after(ms: number, run: () => void): () => void
}

/** The longest time that timers accept. */
const TIMER_MS_MAX = 2 ** 31 - 1

/** Its time runs on steadily when the date of the system is set, and may stand still in sleep. */
export const systemClock: PaceClock = {
  now: () => performance.timeOrigin + performance.now(),
  date: () => Date.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, Math.min(ms, TIMER_MS_MAX))
    return () => clearTimeout(timer)
  },
}

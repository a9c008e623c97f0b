/** Time as what follows a rule store needs it, so that a test can be its clock. */
import { monotonicMs } from './wall-clock.js'

export interface Scheduler {
  /** By a clock that never steps. */
  nowMs(): number
  /** Calls later, unless what it returns is called before; keeps no process alive by itself. */
  after(ms: number, run: () => void): () => void
}

export const systemScheduler: Scheduler = {
  nowMs: monotonicMs,
  after(ms, run) {
    const timer = setTimeout(run, ms).unref()
    return () => clearTimeout(timer)
  },
}

/** Delayed calls and the clock that belongs to them, replaceable in tests. */
import { type Scheduler as Timers, systemScheduler as systemTimers } from '@sluice/limiter/internal'
import { monotonicMs } from './wall-clock.js'

export interface Scheduler extends Timers {
  /** Milliseconds of a clock that never steps. */
  nowMs(): number
}

export const systemScheduler: Scheduler = { ...systemTimers, nowMs: monotonicMs }

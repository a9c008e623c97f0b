import type { Clock } from '../clock.js'

export interface ManualClock extends Clock {
  /** Moves the time by so many milliseconds; a negative number steps it back. */
  advance(ms: number): void
  /** Sets the time, in whole microseconds since 1970. */
  set(us: number): void
}

/** 2026-01-01T00:00:00Z: every window whose length divides a day starts then. */
const START_US = 1_767_225_600_000_000

/** A clock that stands still until it is moved. */
export function manualClock(startUs = START_US): ManualClock {
  let now = startUs
  return {
    now: () => now,
    advance: (ms) => {
      now += ms * 1000
    },
    set: (us) => {
      now = us
    },
  }
}

import type { Clock } from '../clock.js'

export interface ManualClock extends Clock {
  /** Moves the time by `ms`; a negative number moves it back. */
  advance(ms: number): void
  /** Sets the time, in whole microseconds since 1970. */
  set(us: number): void
}

/** 2026-01-01T00:00:00Z, where every window whose length divides a day starts. */
const START_US = 1_767_225_600_000_000

/** A clock that stands still until a test moves it. */
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

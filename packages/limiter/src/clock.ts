/** The one place of this package that reads the time. */

export interface Clock {
  /** Whole microseconds since 1970. */
  now(): number
}

/** The wall clock. It may step; the algorithms know what to do with a state from ahead. */
export const systemClock: Clock = {
  now: () => Date.now() * 1000,
}

/**
 * Milliseconds since the process began, by a clock that never steps: for deadlines, never for
 * windows.
 */
export function monotonicMs(): number {
  return performance.now()
}

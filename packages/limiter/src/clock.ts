/** The only module of this package that reads the time. */

export interface Clock {
  /** Whole microseconds since 1970. */
  now(): number
}

/** The wall clock. It may step; the algorithms handle states from the future. */
export const systemClock: Clock = {
  now: () => Date.now() * 1000,
}

/**
 * Milliseconds since the process started, by a clock that never steps: for deadlines, never for
 * windows.
 */
export function monotonicMs(): number {
  return performance.now()
}

/** The one place of this package that reads the time. */

export interface WallClock {
  /** Milliseconds since 1970. */
  now(): number
}

export const wallClock: WallClock = { now: () => Date.now() }

/** Milliseconds of a clock that never steps, for durations. */
export function monotonicMs(): number {
  return performance.now()
}

/** The events of a Redis store, for metrics and logs. */

/** The address reported with an error that happened before a node was chosen. */
export const NO_ADDRESS = ''

export interface StoreObserver {
  /** A node answered a batch: its address, the latency in seconds, and the number of takes. */
  batch(address: string, seconds: number, takes: number): void
  /**
   * An error code of Redis, or one of this process: `connection` (lost, or none to send on),
   * `breaker` (open, so nothing was sent), `deadline`, `late`, `overload`, `garbage`.
   */
  error(code: string, address: string): void
  /** A problem that an operator has to solve. */
  problem(message: string): void
  breakerOpened(address: string): void
  breakerClosed(address: string): void
  /** A call was refused only because of units that other undecided calls hold. */
  held(): void
}

/**
 * Wraps an observer so that it cannot throw. It is called while replies and timers are handled,
 * where an exception would leave calls without an answer.
 */
export function guardObserver(observer: Partial<StoreObserver> = {}): StoreObserver {
  const safely = (report: () => void) => {
    try {
      report()
    } catch {
      // An observer that throws has no one to report to.
    }
  }
  return {
    batch: (address, seconds, takes) => safely(() => observer.batch?.(address, seconds, takes)),
    error: (code, address) => safely(() => observer.error?.(code, address)),
    problem: (message) => safely(() => observer.problem?.(message)),
    breakerOpened: (address) => safely(() => observer.breakerOpened?.(address)),
    breakerClosed: (address) => safely(() => observer.breakerClosed?.(address)),
    held: () => safely(() => observer.held?.()),
  }
}

export const silentObserver: StoreObserver = {
  batch: () => {},
  error: () => {},
  problem: () => {},
  breakerOpened: () => {},
  breakerClosed: () => {},
  held: () => {},
}

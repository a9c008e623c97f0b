/** What the store tells of itself as it happens, for metrics and logs. */

/** The address in an error where no node is known that could have been asked. */
export const NO_ADDRESS = ''

export interface StoreObserver {
  /** A batch was answered: by which node, after how long, with how many takes. */
  batch(address: string, seconds: number, takes: number): void
  /**
   * An error of Redis by its code, or one of this side: `connection` (it was lost, or there was
   * none to send on), `breaker` (open, so nothing was sent), `deadline`, `late`, `overload`,
   * `garbage`.
   */
  error(code: string, address: string): void
  /** A person has to act. */
  problem(message: string): void
  breakerOpened(address: string): void
  breakerClosed(address: string): void
  /** A call was refused only by units that other calls hold while they are decided. */
  held(): void
}

/**
 * An observer that cannot do harm: it is called in the midst of replies and timers, where what it
 * throws would leave calls without an answer.
 */
export function guardObserver(observer: Partial<StoreObserver> = {}): StoreObserver {
  const safely = (report: () => void) => {
    try {
      report()
    } catch {
      // There is nobody left to tell.
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

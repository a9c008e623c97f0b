/** What the store tells of itself as it happens, for metrics and logs. */

export interface StoreObserver {
  /** A batch was answered: by which node, after how long, with how many takes. */
  batch(address: string, seconds: number, takes: number): void
  /** An error of Redis by its code, or `connection`, `deadline`, `late`, `overload`, `garbage`. */
  error(code: string, address: string): void
  /** A person has to act. */
  problem(message: string): void
  breakerOpened(address: string): void
  breakerClosed(address: string): void
  /** A call was refused by a counter to which a give-back of this node was under way. */
  held(): void
}

export const silentObserver: StoreObserver = {
  batch: () => {},
  error: () => {},
  problem: () => {},
  breakerOpened: () => {},
  breakerClosed: () => {},
  held: () => {},
}

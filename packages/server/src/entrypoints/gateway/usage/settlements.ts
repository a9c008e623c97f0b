/** Runs settlements after their calls have ended, again if the store does not answer. */
import type { Scheduler } from '@sluice/limiter/internal'

/**
 * When a settlement that failed is run again: a reservation ends once, so nothing is charged twice.
 * What a store that stays silent for longer has not settled stays at its reserve.
 */
const REPEAT_AFTER_MS = [1000, 10_000, 60_000, 600_000]
/** Settlements that wait to be run again; beyond it they are dropped, and the reserves stay. */
const WAITING_MAX = 10_000

export interface SettlementsDeps {
  readonly scheduler: Scheduler
  /** Called with the error of a settlement that is not run again. */
  readonly onError: (error: unknown) => void
}

/** A settlement; it may run several times. */
interface PendingSettlement {
  readonly settle: () => Promise<void>
  /** Called if it failed for good: the reserve stays charged. */
  readonly onDropped: () => void
}

export class Settlements {
  readonly #deps: SettlementsDeps
  readonly #running = new Set<Promise<void>>()
  #waiting = 0

  constructor(deps: SettlementsDeps) {
    this.#deps = deps
  }

  run(settlement: PendingSettlement): void {
    this.attempt(settlement, 0)
  }

  /** Resolves when no settlement is being run; those that wait for their repetition stay behind. */
  async idle(): Promise<void> {
    await Promise.all(this.#running)
  }

  private attempt(settlement: PendingSettlement, repeated: number): void {
    const running = settlement
      .settle()
      .catch((error: unknown) => this.onFailed(settlement, repeated, error))
      .finally(() => this.#running.delete(running))
    this.#running.add(running)
  }

  private onFailed(settlement: PendingSettlement, repeated: number, error: unknown): void {
    const afterMs = REPEAT_AFTER_MS[repeated]
    if (afterMs === undefined || this.#waiting >= WAITING_MAX) {
      this.#deps.onError(error)
      return settlement.onDropped()
    }
    this.#waiting++
    this.#deps.scheduler.after(afterMs, () => {
      this.#waiting--
      this.attempt(settlement, repeated + 1)
    })
  }
}

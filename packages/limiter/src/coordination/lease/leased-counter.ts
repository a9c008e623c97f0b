/** One counter that may be leased: how fast it is spent on this node, and what is held. */
import type { CompiledLimit, CounterKey } from '@sluice/core'
import type { Draw } from './lease-draw.js'
import type { Exhaustion } from './lease-exhaustion.js'
import { type Lease, leaseMs } from './lease.js'
import type { MutableCoordinationStats } from '../coordination-stats.js'

const NO_LEASES: readonly Lease[] = []

export class LeasedCounter {
  readonly key: CounterKey
  readonly stats: MutableCoordinationStats
  /** The next counter in a chain of keys with the same lower half. */
  next: LeasedCounter | undefined
  /** The limit of its leases: a call with another tier is not served from them. */
  compiled: CompiledLimit
  leaseMs: number
  /** When a call last used it. */
  usedMs: number
  /** Oldest first; spent ones stay until the next draw, because calls may put units back. */
  leases: readonly Lease[] = NO_LEASES
  draw: Draw | undefined
  exhaustion: Exhaustion | undefined
  /** Units being returned to the store. */
  giving = 0
  resets = 0
  #sinceMs: number
  #spent = 0
  #spentBefore = 0

  constructor(
    key: CounterKey,
    compiled: CompiledLimit,
    stats: MutableCoordinationStats,
    nowMs: number,
  ) {
    this.key = key
    this.stats = stats
    this.next = undefined
    this.compiled = compiled
    this.leaseMs = leaseMs(compiled.immediate)
    this.usedMs = nowMs
    this.draw = undefined
    this.exhaustion = undefined
    this.#sinceMs = nowMs
  }

  /** Switches to another limit; only while nothing is held or drawn. */
  rebind(compiled: CompiledLimit): void {
    this.compiled = compiled
    this.leaseMs = leaseMs(compiled.immediate)
    this.exhaustion = undefined
  }

  get held(): number {
    return this.leases.reduce((sum, { units }) => sum + units, 0)
  }

  /** Units that the store counts but no call has spent: held, requested or being returned. */
  get outstanding(): number {
    return this.held + this.giving + (this.draw?.spare ?? 0)
  }

  /** Whether it must not be dropped. */
  get isBusy(): boolean {
    return this.leases.length > 0 || this.draw !== undefined || this.giving > 0
  }

  /** Records units spent on this node, from a lease or by decision of the store. */
  recordSpent(amount: number, nowMs: number): void {
    if (nowMs - this.#sinceMs >= this.leaseMs) this.rotate(nowMs)
    this.#spent += amount
  }

  /** Reverts recorded units that were put back. */
  unrecordSpent(amount: number): void {
    this.#spent = Math.max(0, this.#spent - amount)
  }

  /** Units spent within the last lease lifetime; those of the period before by overlap. */
  spentLately(nowMs: number): number {
    if (nowMs - this.#sinceMs >= this.leaseMs) this.rotate(nowMs)
    const weight = 1 - (nowMs - this.#sinceMs) / this.leaseMs
    return this.#spent + Math.floor(this.#spentBefore * weight)
  }

  private rotate(nowMs: number): void {
    const isNext = nowMs - this.#sinceMs < 2 * this.leaseMs
    this.#spentBefore = isNext ? this.#spent : 0
    this.#sinceMs = isNext ? this.#sinceMs + this.leaseMs : nowMs
    this.#spent = 0
  }
}

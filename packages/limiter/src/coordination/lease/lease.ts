/**
 * Units of one draw, held by this node until they are spent or the lease expires.
 *
 * The lifetime counts from the sending of the draw, so that a lease expires here before the store's
 * window ends. Two clocks measure it: the monotonic clock stands still while the machine sleeps,
 * and the wall clock may be set back. Whichever is first ends the lease.
 */
import { algorithmOf, type Limit, type Outcome, windowEndOf } from '@sluice/core'
import type { Draw } from './lease-draw.js'
import type { NodeOutcome } from '../node-decider.js'
import type { LeasedCounter } from './leased-counter.js'

const LEASE_MS_MAX = 2000
const WINDOW_SHARE = 4

/** The longest lifetime of a lease of this limit. */
export function leaseMs({ windowMs }: Limit): number {
  return Math.min(windowMs / WINDOW_SHARE, LEASE_MS_MAX)
}

/** How long after its sending a draw granted at `at` may be spent. */
function lifeMs(limit: Limit, at: number): number {
  if (!countsWindows(limit)) return leaseMs(limit)
  return Math.min(leaseMs(limit), (windowEndOf(limit, at) - at) / 1000)
}

function countsWindows(limit: Limit): boolean {
  return algorithmOf(limit).windowsCounted > 0
}

export class Lease {
  readonly counter: LeasedCounter
  /** The limit by which it was drawn and is returned. */
  readonly limit: Limit
  /** From the store's outcome of the draw. */
  readonly at: number
  readonly left: number
  readonly resetAfterMs: number
  readonly sentMs: number
  readonly sentWallUs: number
  readonly endMs: number
  readonly endWallUs: number
  units: number
  /**
   * `closed`: this node holds nothing of it any more; units put back later go to the store.
   * `forgotten`: the counter was reset, so units put back later are dropped.
   */
  state: 'open' | 'closed' | 'forgotten' = 'open'

  constructor(draw: Draw, outcome: Outcome) {
    const { limit } = draw.take
    const life = lifeMs(limit, outcome.at)
    this.counter = draw.counter
    this.limit = limit
    this.at = outcome.at
    this.left = outcome.remaining
    this.resetAfterMs = outcome.resetAfterMs
    this.sentMs = draw.sentMs
    this.sentWallUs = draw.sentWallUs
    this.endMs = draw.sentMs + life
    this.endWallUs = draw.sentWallUs + life * 1000
    this.units = outcome.granted
  }

  /** Checked before every spending; no timer is relied on. */
  isOver(monotonicMs: number, wallUs: number): boolean {
    return monotonicMs >= this.endMs || wallUs >= this.endWallUs
  }

  /**
   * Whether its units may have refilled by themselves: a bucket that was full since the draw has
   * regained them, and returning them would admit them twice. The draw's answer gives the earliest
   * time; usage by others only delays it.
   */
  mayBeRegained(monotonicMs: number, wallUs: number): boolean {
    if (countsWindows(this.limit)) return false
    const passedMs = Math.max(monotonicMs - this.sentMs, (wallUs - this.sentWallUs) / 1000)
    return passedMs > this.resetAfterMs - 1
  }

  /** Whether returning its units would change nothing any more. */
  isWorthless(monotonicMs: number, wallUs: number): boolean {
    const { windowsCounted } = algorithmOf(this.limit)
    if (windowsCounted === 0) return this.mayBeRegained(monotonicMs, wallUs)
    return monotonicMs - this.sentMs >= windowsCounted * this.limit.windowMs
  }

  /** Spends units of calls that were admitted before the draw was answered. */
  settle(admitted: number): void {
    const units = Math.min(admitted, this.units)
    this.units -= units
    this.counter.stats.held -= units
    this.counter.stats.spent += units
  }

  /** The lease must have that many units. */
  spend(amount: number, nowMs: number): NodeOutcome {
    const { counter } = this
    this.units -= amount
    counter.stats.held -= amount
    counter.stats.spent += amount
    counter.recordSpent(amount, nowMs)
    return new SpentOutcome(this, amount, nowMs)
  }
}

/** References its lease, so that units put back keep the expiry and time of their draw. */
class SpentOutcome implements NodeOutcome {
  readonly granted: number
  readonly remaining: number
  readonly resetAfterMs: number
  readonly retryAfterMs = 0
  readonly delayMs = 0
  readonly at: number
  readonly staleMs: number
  readonly #lease: Lease

  constructor(lease: Lease, granted: number, nowMs: number) {
    const staleMs = nowMs - lease.sentMs
    const resetAfterMs = Math.ceil(lease.resetAfterMs - staleMs)
    this.granted = granted
    this.remaining = lease.left + lease.units
    this.resetAfterMs = resetAfterMs > 0 ? resetAfterMs : 0
    this.at = lease.at
    this.staleMs = staleMs
    this.#lease = lease
  }

  static leaseOf(outcome: NodeOutcome): Lease | undefined {
    return #lease in outcome ? outcome.#lease : undefined
  }
}

/** The lease that an outcome was spent from; undefined for a refusal. */
export function leaseOf(outcome: NodeOutcome): Lease | undefined {
  return SpentOutcome.leaseOf(outcome)
}

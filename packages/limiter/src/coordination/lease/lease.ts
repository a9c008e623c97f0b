/**
 * Units of one draw, held by this node until they are spent or the lease is over.
 *
 * Time counts from the moment the draw was sent, so that a lease is over here before the store's
 * window is. Two clocks count it: the one that never steps stands still while a machine sleeps, and
 * the wall clock may be set back. Whichever comes first ends the lease.
 */
import { algorithmOf, type Limit, type Outcome } from '@sluice/core'
import type { Draw } from './lease-draw.js'
import type { NodeOutcome } from '../node-decider.js'
import type { LeasedCounter } from './leased-counter.js'

const LEASE_MS_MAX = 2000
const WINDOW_SHARE = 4

/** How long a lease of such a limit lasts at most. */
export function leaseMs({ windowMs }: Limit): number {
  return Math.min(windowMs / WINDOW_SHARE, LEASE_MS_MAX)
}

/** For how long after its sending a draw may be spent that the store granted at `at`. */
function lifeMs(limit: Limit, at: number): number {
  if (!countsWindows(limit)) return leaseMs(limit)
  const leftUs = limit.windowUs - (at % limit.windowUs)
  return Math.min(leaseMs(limit), leftUs / 1000)
}

function countsWindows(limit: Limit): boolean {
  return algorithmOf(limit).windowsCounted > 0
}

export class Lease {
  readonly counter: LeasedCounter
  /** By which it was drawn, and is given back. */
  readonly limit: Limit
  /** What the store said of the draw. */
  readonly at: number
  readonly left: number
  readonly resetAfterMs: number
  readonly sentMs: number
  readonly sentWallUs: number
  readonly endMs: number
  readonly endWallUs: number
  units: number
  /**
   * `closed`: this node holds nothing of it any more, and what still returns goes to the store.
   * `forgotten`: the counter was reset, so that what returns belongs nowhere.
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

  /** Asked before every spending: no timer is trusted with it. */
  isOver(monotonicMs: number, wallUs: number): boolean {
    return monotonicMs >= this.endMs || wallUs >= this.endWallUs
  }

  /**
   * Whether time may have returned its units already: a bucket that was full since the draw has
   * regained them, and given back they would be admitted twice. The draw's answer tells when that
   * could be at the earliest; what others took since only puts it off.
   */
  mayBeRegained(monotonicMs: number, wallUs: number): boolean {
    if (countsWindows(this.limit)) return false
    const passedMs = Math.max(monotonicMs - this.sentMs, (wallUs - this.sentWallUs) / 1000)
    return passedMs > this.resetAfterMs - 1
  }

  /** Whether it makes no difference any more whether its units are given back. */
  isWorthless(monotonicMs: number, wallUs: number): boolean {
    const { windowsCounted } = algorithmOf(this.limit)
    if (windowsCounted === 0) return this.mayBeRegained(monotonicMs, wallUs)
    return monotonicMs - this.sentMs >= windowsCounted * this.limit.windowMs
  }

  /** So many of its units were let pass before it was heard of. */
  settle(admitted: number): void {
    const units = Math.min(admitted, this.units)
    this.units -= units
    this.counter.stats.held -= units
    this.counter.stats.spent += units
  }

  /** The units must be there. */
  spend(amount: number, nowMs: number): NodeOutcome {
    const { counter } = this
    this.units -= amount
    counter.stats.held -= amount
    counter.stats.spent += amount
    counter.recordSpent(amount, nowMs)
    return new SpentOutcome(this, amount, nowMs)
  }
}

/** Knows its lease, so that what is put back never comes under another end or draw time. */
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

/** The lease that an outcome was spent from; a refusal has none. */
export function leaseOf(outcome: NodeOutcome): Lease | undefined {
  return SpentOutcome.leaseOf(outcome)
}

/**
 * The store's time as estimated by this process. A Cluster has a clock on each node: the first
 * known clock is used, and the distance of the others from it is part of the uncertainty.
 */
import { type Clock, systemClock } from '../../clock.js'
import type { StoreClock } from './store-clock.js'

export interface StoreTimeDeps {
  /** One for each node of the store. */
  readonly clocks: () => readonly { readonly clock: StoreClock }[]
  /** The clock that scripts use instead, in tests. */
  readonly clock: Clock | undefined
}

export class StoreTime {
  readonly #deps: StoreTimeDeps

  constructor(deps: StoreTimeDeps) {
    this.#deps = deps
  }

  /** The best estimate in microseconds; the wall clock if no node has ever sent its time. */
  now(): number {
    const { clock } = this.#deps
    return clock?.now() ?? this.anchor()?.now() ?? systemClock.now()
  }

  /** The same, but never behind the time of any node; Infinity if unknown. */
  latest(): number {
    const { clock, clocks } = this.#deps
    if (clock !== undefined) return clock.now()
    let latest = 0
    for (const { clock: each } of clocks()) {
      if (each.isKnown) latest = Math.max(latest, each.latest())
    }
    // A clock that was never read, or not since another server may answer, cannot be estimated.
    return latest === 0 ? Infinity : latest
  }

  /** How far `now` may be from the time of any node; Infinity if no node has ever sent its time. */
  uncertaintyUs(): number {
    if (this.#deps.clock !== undefined) return 0
    const anchor = this.anchor()
    if (anchor === undefined) return Infinity
    const now = anchor.now()
    let most = anchor.uncertaintyUs()
    for (const { clock } of this.#deps.clocks()) {
      if (clock === anchor || !clock.isKnown) continue
      most = Math.max(most, Math.abs(clock.now() - now) + clock.uncertaintyUs())
    }
    return most
  }

  /** The first clock that is known; if none is, the first that once was. */
  private anchor(): StoreClock | undefined {
    let lastKnown: StoreClock | undefined
    for (const { clock } of this.#deps.clocks()) {
      if (clock.isKnown) return clock
      if (clock.wasEverKnown) lastKnown ??= clock
    }
    return lastKnown
  }
}

/**
 * The store's time as this process knows it. A Cluster has a clock on each node: the first that is
 * known is gone by, and how far the others are from it is part of how sure that is.
 */
import { type Clock, systemClock } from '../../clock.js'
import type { StoreClock } from './store-clock.js'

export interface StoreTimeDeps {
  /** One for each node of the store. */
  readonly clocks: () => readonly { readonly clock: StoreClock }[]
  /** What scripts decide with instead, in tests. */
  readonly clock: Clock | undefined
}

export class StoreTime {
  readonly #deps: StoreTimeDeps

  constructor(deps: StoreTimeDeps) {
    this.#deps = deps
  }

  /** In microseconds, as well as it is known; the wall clock where no node has ever told. */
  now(): number {
    const { clock } = this.#deps
    return clock?.now() ?? this.anchor()?.now() ?? systemClock.now()
  }

  /** The same, but never behind that of any node; Infinity where it is not known. */
  latest(): number {
    const { clock, clocks } = this.#deps
    if (clock !== undefined) return clock.now()
    let latest = 0
    for (const { clock: each } of clocks()) {
      if (each.isKnown) latest = Math.max(latest, each.latest())
    }
    // A clock that was never told, or not since another server may answer, is not to be guessed.
    return latest === 0 ? Infinity : latest
  }

  /** How far `now` may be from the time of any node; Infinity where no node has ever told. */
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

  /** The first clock that is known; while none is, the first that once was. */
  private anchor(): StoreClock | undefined {
    let lastKnown: StoreClock | undefined
    for (const { clock } of this.#deps.clocks()) {
      if (clock.isKnown) return clock
      if (clock.wasEverKnown) lastKnown ??= clock
    }
    return lastKnown
  }
}

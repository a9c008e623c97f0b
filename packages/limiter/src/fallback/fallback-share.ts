/**
 * The share of a limit that one node grants during an outage: ceil(factor * max / nodes), at least
 * 1, of max, burst and queue alike, by the same algorithm. A fleet of n nodes thus grants at most
 * factor * max + n - 1 in a window. A factor above 1 grants more than the limit itself.
 */
import {
  asFixedWindow,
  type CompiledLimit,
  type Limit,
  partUnderCeiling,
  resizeLimit,
  wholeLimit,
  withoutWaiting,
} from '@sluice/core'

interface FallbackShare {
  readonly nodes: number
  readonly limit: Limit
  readonly immediate: Limit
}

/** Corrects floating point: 0.1 * 30 is slightly more than 3, and its share would be 4. */
const ROUNDING = 2 ** -46

/** Caches the shares by compiled limit and fleet size. */
export class FallbackShares {
  readonly #known = new WeakMap<CompiledLimit, FallbackShare>()

  /** `canWait`: the share of the limit itself, or of its variant that never delays calls. */
  get(compiled: CompiledLimit, factor: number, nodes: number, canWait: boolean): Limit {
    let share = this.#known.get(compiled)
    if (share === undefined || share.nodes !== nodes) {
      const whole = fallbackShareOf(wholeLimit(compiled).limit, factor, nodes)
      const limit = partUnderCeiling(whole, compiled)
      share = { nodes, limit, immediate: withoutWaiting(limit) }
      this.#known.set(compiled, share)
    }
    return canWait ? share.limit : share.immediate
  }
}

/** A refused call charges no share, so `onRefusal` does not matter. */
function fallbackShareOf(limit: Limit, factor: number, nodes: number): Limit {
  const scale = (units: number) =>
    units === 0 ? 0 : Math.max(1, Math.ceil(((factor * units) / nodes) * (1 - ROUNDING)))
  const max = scale(limit.max)
  const share = resizeLimit(limit, max, scale(limit.capacity))
  if (share !== undefined) return share
  // A share may be too small to count exactly where the whole limit is not; a fixed window always
  // can. One too large is rejected with its rule, but a standalone override may be older than the
  // factor.
  return asFixedWindow(limit, max)
}

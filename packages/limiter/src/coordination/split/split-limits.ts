/**
 * `coordination: split`: node i of n owns floor((i+1) * x / n) - floor(i * x / n) of a limit's max,
 * burst and queue, which sum to the limit exactly, and counts it alone. If the burst is below n,
 * each node still has one unit, so that it can admit its part of the rate. No call uses the store.
 * Unused budget of one node is not available to others: this suits evenly spread traffic.
 */
import {
  asFixedWindow,
  type CompiledLimit,
  type Limit,
  partUnderCeiling,
  type PlannedTake,
  resizeLimit,
  wholeLimit,
  withoutWaiting,
} from '@sluice/core'
import { NodeCounts } from '../node-counts.js'
import { nodesOf } from '../local/local-sync.js'

interface SplitLimit {
  readonly nodes: number
  readonly place: number
  /** Undefined if this node owns nothing of the limit. */
  readonly limit: Limit | undefined
  readonly immediate: Limit | undefined
}

export class SplitLimits extends NodeCounts {
  readonly #known = new WeakMap<CompiledLimit, SplitLimit>()

  /** The part of the limit that this node owns. */
  protected override ownLimit({ limit, compiled }: PlannedTake): Limit | undefined {
    const nodes = nodesOf(this.deps)
    const place = Math.min(nodes - 1, Math.max(0, Math.floor(this.deps.fleetPlace())))
    let splitLimit = this.#known.get(compiled)
    if (splitLimit === undefined || splitLimit.nodes !== nodes || splitLimit.place !== place) {
      const whole = splitLimitOf(wholeLimit(compiled).limit, nodes, place)
      const own = whole && partUnderCeiling(whole, compiled)
      const immediate = own === undefined ? undefined : withoutWaiting(own)
      splitLimit = { nodes, place, limit: own, immediate }
      this.#known.set(compiled, splitLimit)
    }
    return limit === compiled.limit ? splitLimit.limit : splitLimit.immediate
  }
}

/** The units that one node owns; those of all nodes sum to `units`. */
export function nodeUnits(units: number, nodes: number, place: number): number {
  const whole = Math.floor(units / nodes)
  const rest = units % nodes
  // In two steps, because (place + 1) * units may exceed 2^53.
  const upTo = (many: number) => Math.floor((many * rest) / nodes)
  return whole + upTo(place + 1) - upTo(place)
}

function splitLimitOf(limit: Limit, nodes: number, place: number): Limit | undefined {
  if (nodes === 1 || limit.max === 0) return limit
  const max = nodeUnits(limit.max, nodes, place)
  if (max === 0) return undefined
  // A bucket without capacity could never admit what it regains.
  const size = Math.max(1, nodeUnits(limit.capacity, nodes, place))
  const part = resizeLimit(limit, max, size)
  if (part !== undefined) return part
  // A part may be too small to count exactly where the whole limit is not; a fixed window always
  // can.
  return asFixedWindow(limit, Math.min(max, size))
}

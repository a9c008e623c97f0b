/**
 * Limits for merging counts: what nodes spent before they learned of each other is debt, and must
 * be counted beyond full. A bucket owes at most max(burst, nodes, nodes * rate * syncEvery). With
 * less, the fleet would admit the rate once per node forever; with more, a healed partition would
 * block a caller for long. At least one unit per node, because all nodes may admit the unit that
 * was just regained. A window owes what all nodes can spend in it: its count is exact.
 */
import {
  algorithmOf,
  type CompiledLimit,
  defineLimit,
  findLimitProblem,
  type Limit,
  mostDebt,
  partUnderCeiling,
  withoutWaiting,
} from '@sluice/core'

export interface DebtLimit {
  /** The fleet size it was computed for. */
  readonly nodes: number
  /** The rule's limit, extended to keep debt. */
  readonly limit: Limit
  readonly immediate: Limit
  /** How far below empty a charge may go. */
  readonly debt: number
  /**
   * How long a bucket takes to regain its debt. Without it, a charge older than the burst takes to
   * refill would be dropped although the bucket still owes.
   */
  readonly debtUs: number
}

/** The bound of `LimitSpec.debt`; the count of a window then stays far below 2^53. */
const DEBT_MAX = 999_999_999_999_999

/** Caches the limits by compiled limit and fleet size. */
export class DebtLimits {
  readonly #known = new WeakMap<CompiledLimit, DebtLimit>()

  get(compiled: CompiledLimit, nodes: number): DebtLimit {
    const known = this.#known.get(compiled)
    if (known?.nodes === nodes) return known
    const made =
      compiled.ceiling === undefined
        ? withDebtOf(compiled, nodes)
        : this.underCeiling(compiled, compiled.ceiling.whole, nodes)
    this.#known.set(compiled, made)
    return made
  }

  /** A part of the whole limit decides, but what may be owed is that of the whole. */
  private underCeiling(compiled: CompiledLimit, whole: CompiledLimit, nodes: number): DebtLimit {
    const debtLimit = this.get(whole, nodes)
    const limit = partUnderCeiling(debtLimit.limit, compiled)
    return { ...debtLimit, limit, immediate: withoutWaiting(limit) }
  }
}

function withDebtOf(compiled: CompiledLimit, nodes: number): DebtLimit {
  return algorithmOf(compiled.limit).family === 'bucket'
    ? bucketWithDebt(compiled, nodes)
    : windowWithDebt(compiled, nodes)
}

function windowWithDebt({ limit, immediate }: CompiledLimit, nodes: number): DebtLimit {
  return { nodes, limit, immediate, debt: Math.min(nodes * limit.max, DEBT_MAX), debtUs: 0 }
}

function bucketWithDebt(compiled: CompiledLimit, nodes: number): DebtLimit {
  const limit = withDebt(compiled.limit, wantedDebt(compiled, nodes)) ?? compiled.limit
  const debtUs = timeToRegainDebt(limit)
  return { nodes, limit, immediate: withoutWaiting(limit), debt: limit.borrowable, debtUs }
}

/** Returns the microseconds in which a bucket regains all that it may owe. */
export function timeToRegainDebt({ borrowable, p, q, tickUs }: Limit): number {
  return p === 0 ? 0 : Math.ceil((borrowable * q) / p) * tickUs
}

function wantedDebt({ limit, syncEveryMs }: CompiledLimit, nodes: number): number {
  const spentUnseen = Math.ceil((nodes * limit.max * syncEveryMs) / limit.windowMs)
  // Regions may owe more than the nodes of one.
  const owed = limit.isMerged === true ? limit.borrowable : limit.debt
  return Math.min(Math.max(limit.capacity, owed, nodes, spentUnseen), DEBT_MAX)
}

/** The limit with this much debt, or with the most that stays exact; undefined if none does. */
function withDebt(limit: Limit, wanted: number): Limit | undefined {
  if (limit.max === 0) return undefined
  const { max, capacity, onRefusal } = limit
  const algorithm = algorithmOf(limit)
  const spec = algorithm.resize(limit, max, capacity)
  for (const debt of [wanted, Math.min(wanted, mostDebt(spec, algorithm))]) {
    const owing = { ...spec, onRefusal, debt }
    if (debt > 0 && findLimitProblem(owing) === undefined) {
      return { ...defineLimit(owing), isMerged: limit.isMerged }
    }
  }
  return undefined
}

/**
 * Limits as counts are merged under: what nodes spent before they heard of each other is owed, and
 * must be counted beyond full. A bucket owes at most max(burst, nodes, nodes * rate * syncEvery):
 * with less the fleet would admit a rate per node for ever, with more a healed partition would
 * silence a caller. A unit for each node, because all may admit the one that has just come back. A
 * window owes what all nodes can spend of it: its count is the truth.
 */
import {
  algorithmOf,
  type CompiledLimit,
  defineLimit,
  findLimitProblem,
  gcd,
  type Limit,
  withoutWaiting,
} from '@sluice/core'

export interface DebtLimit {
  /** Live nodes that it was made for. */
  readonly nodes: number
  /** As the rule's own, but it does not forget what is owed. */
  readonly limit: Limit
  readonly immediate: Limit
  /** How far beyond full a charge may go. */
  readonly debt: number
  /**
   * How long a bucket takes to regain its debt. A charge that comes later than the burst alone
   * takes would be dropped as regained; while the bucket owes, it is not.
   */
  readonly debtUs: number
}

/** As `LimitSpec.debt`; the count of a window then stays far below 2^53. */
const DEBT_MAX = 999_999_999_999_999
const TICKS_US = [1, 1000] as const

/** The limits in use, made once for each limit of a rule and size of the fleet. */
export class DebtLimits {
  readonly #known = new WeakMap<CompiledLimit, DebtLimit>()

  get(compiled: CompiledLimit, nodes: number): DebtLimit {
    const known = this.#known.get(compiled)
    if (known?.nodes === nodes) return known
    const made =
      algorithmOf(compiled.limit).family === 'bucket'
        ? bucketWithDebt(compiled, nodes)
        : windowWithDebt(compiled, nodes)
    this.#known.set(compiled, made)
    return made
  }
}

function windowWithDebt({ limit, immediate }: CompiledLimit, nodes: number): DebtLimit {
  return { nodes, limit, immediate, debt: Math.min(nodes * limit.max, DEBT_MAX), debtUs: 0 }
}

function bucketWithDebt(compiled: CompiledLimit, nodes: number): DebtLimit {
  const limit = withDebt(compiled.limit, wantedDebt(compiled, nodes)) ?? compiled.limit
  const { borrowable: lent, p, q, tickUs } = limit
  const debtUs = p === 0 ? 0 : Math.ceil((lent * q) / p) * tickUs
  return { nodes, limit, immediate: withoutWaiting(limit), debt: lent, debtUs }
}

function wantedDebt({ limit, syncEveryMs }: CompiledLimit, nodes: number): number {
  const spentUnseen = Math.ceil((nodes * limit.max * syncEveryMs) / limit.windowMs)
  return Math.min(Math.max(limit.capacity, nodes, spentUnseen), DEBT_MAX)
}

/** With so much debt or the most that can be counted exactly; undefined: with none. */
function withDebt(limit: Limit, wanted: number): Limit | undefined {
  if (limit.max === 0) return undefined
  const { max, capacity, onRefusal } = limit
  const spec = algorithmOf(limit).resize(limit, max, capacity)
  for (const debt of [wanted, Math.min(wanted, mostDebt(limit))]) {
    const owing = { ...spec, onRefusal, debt }
    if (debt > 0 && findLimitProblem(owing) === undefined) return defineLimit(owing)
  }
  return undefined
}

/** The most for which 4 * (burst + what is lent) * q and the time to regain that stay exact. */
function mostDebt({ max, windowMs, capacity, borrowable: lent }: Limit): number {
  const fits = TICKS_US.map((tickUs) => {
    const ticks = (windowMs * 1000) / tickUs
    const divisor = gcd(max, ticks)
    const inTime = Math.floor(Number.MAX_SAFE_INTEGER / tickUs) * (max / divisor)
    const fractions = Math.min(Number.MAX_SAFE_INTEGER, inTime)
    // One unit for what rounding up lends, one for the burst's own spare.
    return Math.floor(fractions / (4 * (ticks / divisor))) - capacity - lent - 2
  })
  return Math.max(0, ...fits)
}

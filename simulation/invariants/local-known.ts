/**
 * What one node spends is known to all within T + D (see local-bound.ts): once a window is full by
 * what all nodes together have admitted, no node admits anything of it later than that. A full
 * bucket refills meanwhile, so only its debt beyond that makes all nodes refuse. The debt is at
 * most a burst, and no node knows of more.
 *
 * This is stricter than a bound on a sum: it holds for every single call, however few there are.
 * Checked in runs without faults in which the fleet stays the same and the counter has one limit,
 * no reset and no refund.
 */
import { type Limit, windowNumberOf } from '@sluice/core'
import type { DecisionRecord, TakeRecord } from '../call-log.js'
import { isBucket, hasOneLimit, nameOf } from '../sim-counter.js'
import type { GroundTruth } from '../ground-truth.js'
import type { MakeInvariant } from './invariant.js'
import { unknownUs } from './local-bound.js'
import { perUs } from './meter.js'

const ROUNDING_US = 1000
/** Used units and debt of a bucket, in bursts; the debt may be larger, but need not be. */
const OWED_MAX = 2

/** Admitted units, by the time of their decision. */
interface KnownAdmission {
  readonly us: number
  readonly storeUs: number
  readonly units: number
  /** The least that a bucket has in use after it. */
  readonly level: number
}

export const localKnown: MakeInvariant = (truth) => {
  const histories = new Map<string, KnownAdmission[]>()
  const refunded = new Set<string>()
  return {
    name: 'what one node spends is known to all in time',
    onRefund: ({ key }) => {
      refunded.add(nameOf(key))
      return undefined
    },
    onDecision: (decided) => {
      if (!truth.isSteady) return undefined
      for (const { take } of decided.spent) {
        const { counter } = take.account
        if (take.compiled.coordination !== 'local' || take.amount === 0) continue
        if (!hasOneLimit(counter) || refunded.has(counter.name)) continue
        const history = histories.get(counter.name) ?? []
        histories.set(counter.name, history)
        const excess = excessOf(history, take, decided, truth)
        if (excess > 0) {
          return `${decided.call.node} admitted ${excess.toFixed(3)} of ${counter.rule} that others had spent long before`
        }
        history.push(admission(history, take, decided))
      }
      return undefined
    },
  }
}

function excessOf(
  history: readonly KnownAdmission[],
  { compiled, amount }: TakeRecord,
  { call }: DecisionRecord,
  truth: GroundTruth,
): number {
  const { limit } = compiled
  const knownUs = call.startedUs - unknownUs(compiled, truth)
  const known = history.filter(({ us }) => us <= knownUs)
  if (!isBucket(limit)) {
    const window = windowOf(call.startedStoreUs, limit, truth)
    const before = known.filter(({ storeUs }) => windowOf(storeUs, limit, truth) === window)
    const count = before.reduce((sum, { units }) => sum + units, 0)
    return window === undefined ? 0 : Math.min(amount, count + amount - limit.max)
  }
  const last = known.at(-1)
  if (last === undefined) return 0
  const regained = (call.startedUs - last.us) * perUs(limit)
  return last.level - regained + amount - limit.capacity - 1
}

/** Undefined so close to an edge that nodes may place it on either side. */
function windowOf(us: number, limit: Limit, { reachMs }: GroundTruth): number | undefined {
  const nearUs = reachMs * 1000 + ROUNDING_US
  const window = windowNumberOf(limit, us - nearUs)
  return window === windowNumberOf(limit, us + nearUs) ? window : undefined
}

function admission(
  history: readonly KnownAdmission[],
  { compiled, amount }: TakeRecord,
  { trueUs, storeUs }: DecisionRecord,
): KnownAdmission {
  const last = history.at(-1)
  const leaked = last === undefined ? 0 : (trueUs - last.us) * perUs(compiled.limit)
  const most = OWED_MAX * compiled.limit.capacity
  const level = Math.min(most, Math.max(0, (last?.level ?? 0) - leaked) + amount)
  return { us: trueUs, storeUs, units: amount, level }
}

/**
 * No counter owes more than the debt of its limit: whatever is charged, whoever charges it, the
 * store counts at most the capacity and the debt. For a counter with several limits the largest
 * applies. Local counts have debts of their own.
 */
import type { CounterKey } from '@sluice/core'
import type { Operation } from '../requests.js'
import type { GroundTruth } from '../ground-truth.js'
import { type Counter, isEver, mostOf, nameOf } from '../sim-counter.js'
import type { MakeInvariant } from './invariant.js'

export const debts: MakeInvariant = (truth) => ({
  name: 'no counter owes more than its debt',
  onExecution: ({ request: { operation }, reply }) => {
    for (const key of reply.late ? [] : keysOf(operation)) {
      const counter = truth.counters.get(nameOf(key))
      if (counter === undefined || isEver(counter, 'local')) continue
      const used = usedOf(counter, truth)
      const most = mostOf(counter, ({ capacity, max, debt }) => Math.max(capacity, max) + debt)
      if (used > most) return `${counter.rule} counts ${used}, more than ${most}`
    }
    return undefined
  },
})

function keysOf(operation: Operation): readonly CounterKey[] {
  if (operation.verb === 'take') return operation.groups.flat().map(({ key }) => key)
  if (operation.verb === 'charge') return [operation.charge.key]
  return []
}

/** The units that the store counts, as its state has them; those of an older window count too. */
function usedOf({ key, lastLimit }: Counter, { server }: GroundTruth): number {
  if (lastLimit === undefined) return 0
  const [[peeked] = []] = server.counters.sync.peek([[{ key, limit: lastLimit, amount: 0 }]])
  const state = peeked?.state
  if (Array.isArray(state)) return state.reduce((sum, units, i) => sum + (i % 2) * units, 0)
  const { count = 0, used = 0, curr = 0 } = (state ?? {}) as Readonly<Record<string, number>>
  return Math.max(count, used, curr)
}

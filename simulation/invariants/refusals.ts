/**
 * No false refusal beyond the stated ones.
 *
 * A refusal that no store was asked for is held against the store at that very moment: would it
 * have had room? Then it is false, unless one of these, which are stated:
 * - another node gave something back to the counter within the time that a refusal is remembered
 *   (1 s; for leases at most as long as they last, for local counts until the next read), of which
 *   this one cannot have heard;
 * - leases: `maxStranded` of the limit may be held elsewhere, so a call is refused from a dry
 *   counter until so much fits again;
 * - local counts: what this node itself has spent and not reported yet counts too; what is owed by
 *   one limit is not cut by another, so those of several limits are left out;
 * - the store's clock or counters changed by themselves in the last seconds, or the node slept and
 *   its clock is behind until it hears of the store again.
 * A split refuses what its part does not hold, and a posture what it is made for.
 */
import { algorithmOf, type Limit } from '@sluice/core'
import type { Called, Decided, Wanted } from '../called.js'
import { type Counter, isSameLimit } from '../counter.js'
import type { Truth } from '../truth.js'
import type { MakeInvariant } from './invariant.js'

/** How far a node may be off in placing the present. */
const CLOCK_US = 3000
const UPSET_US = 6_000_000

export const refusals: MakeInvariant = (truth) => ({
  name: 'no call is refused that has room',
  onDecided: (decided) => {
    const { decision, called, trueUs } = decided
    if (decision.allowed || decision.reason === 'cost_exceeds_limit') return undefined
    if (truth.isUpset(trueUs, UPSET_US) || truth.slept(called.node)) return undefined
    const [group = []] = called.takes
    if (decision.source === 'deny-cache') return deniedWrongly(group, decided, truth)
    if (decision.source !== 'lease' && decision.source !== 'local') return undefined
    const refusing = group.filter(({ of: { coordination, limit, rule } }) => {
      const isThis = rule === decision.rule && limit.name === decision.limitName
      return isThis && (coordination === 'leased' || coordination === 'local')
    })
    for (const wanted of refusing) {
      const wrong = refusedWrongly(wanted, called, trueUs, truth)
      if (wrong !== undefined) return wrong
    }
    return undefined
  },
})

function deniedWrongly(
  group: readonly Wanted[],
  { called, trueUs }: Decided,
  truth: Truth,
): string | undefined {
  const { denyCacheMs } = truth.scenario.settings
  const withinUs = (denyCacheMs + truth.reachMs) * 1000 + CLOCK_US
  for (const { account, of, amount } of group) {
    const { counter } = account
    if (of.coordination === 'split') return undefined
    if (truth.gaveWithin(counter, called, trueUs, withinUs)) return undefined
    if (!hasRoom(truth, counter, of.limit, amount, trueUs - called.startedUs)) return undefined
  }
  return `call ${called.id} on ${called.node} was refused from memory, and the store has room`
}

function refusedWrongly(
  { account, of, amount }: Wanted,
  called: Called,
  trueUs: number,
  truth: Truth,
): string | undefined {
  const { counter } = account
  const { limit } = of
  const lengthUs = Math.min(limit.windowUs / 4, 1_000_000) + truth.reachMs * 1000
  let needed = amount
  if (of.coordination === 'leased') {
    if (truth.gaveWithin(counter, called, trueUs, lengthUs)) return undefined
    needed = Math.max(amount, Math.floor(of.maxStranded * limit.capacity))
  } else {
    const syncUs = (of.syncEveryMs + 2 * truth.reachMs) * 1000
    if (!truth.isCalm || counter.variants.length > 1) return undefined
    if (truth.gaveWithin(counter, called, trueUs, syncUs)) return undefined
    const { spent, granted, givesTried, charged } = account
    const unreported = Math.max(0, spent - (granted - givesTried + charged))
    needed += unreported + truth.pending(called.node, counter)
  }
  if (needed > limit.capacity || !hasRoom(truth, counter, limit, needed, trueUs - called.startedUs))
    return undefined
  return `call ${called.id} on ${called.node} was refused by ${of.rule}, and the store has room for ${needed}`
}

/** Whether the store would have had room when the call came: nodes know its clock no better. */
function hasRoom(
  truth: Truth,
  { key, name }: Counter,
  own: Limit,
  amount: number,
  waitedUs: number,
): boolean {
  const { server } = truth
  const owing = truth.owing.get(name)
  const limit = owing !== undefined && isSameLimit(owing, own) ? owing : own
  const [[seen] = []] = server.counters.sync.peek([[{ key, limit, amount: 0 }]])
  const before = server.nowUs() - CLOCK_US - waitedUs
  // Of a window that has ended since nothing is known any more.
  const edgeUs = server.nowUs() - (server.nowUs() % limit.windowUs)
  if (before < edgeUs) return false
  return algorithmOf(limit).peek(seen?.state, limit, amount, before).retryAfterMs === 0
}

/**
 * Units charged to a window were spent in it.
 *
 * For every node, counter and window of the store: units that the node charged as of that window
 * are at most the units it admitted then, by posture or by its own counts. A node knows the store's
 * clock with an uncertainty that it reports, so a unit that near to an edge may be on either side.
 * Nodes that slept, and stores whose clock stepped, are left out: the node cannot know the time.
 */
import { type Limit, windowNumberOf } from '@sluice/core'
import type { DecisionRecord } from '../call-log.js'
import { chargeOf, type GroundTruth } from '../ground-truth.js'
import { nameOf } from '../sim-counter.js'
import type { MakeInvariant } from './invariant.js'

const ROUNDING_US = 5000

export const reportWindow: MakeInvariant = (truth) => {
  const spent = new Map<string, number>()
  const charged = new Map<string, number>()
  const latest = new Map<string, number>()
  return {
    name: 'what is charged to a window was spent in it',
    onDecision: (record) => {
      const { call, decision } = record
      const [fromUs, mostUs] = spentWithin(record)
      // The node's estimate of the store's time may step back a little. A counter that is already
      // in a later window stays there.
      const toUs = Math.max(mostUs, latest.get(call.node) ?? 0)
      latest.set(call.node, toUs)
      const admitted = record.spent.map(({ take }) => take)
      // A call that waited for its other limits and was refused, or had been made before, counts as
      // spent until it is returned; if it was reported meanwhile, it is given back.
      const isReturned = !decision.allowed || admitted.length === 0
      const waited = record.trueUs > call.startedUs && isReturned
      for (const take of waited ? call.takes.flat() : admitted) {
        const { name } = take.account.counter
        const { limit } = take.compiled
        if (!isWindow(limit)) continue
        for (let at = windowNumberOf(limit, fromUs); at <= windowNumberOf(limit, toUs); at++) {
          add(spent, `${call.node} ${name} ${at}`, take.amount)
        }
      }
      return undefined
    },
    onExecution: ({ request, reply }) => {
      const { operation, node } = request
      if (reply.late) return undefined
      // Usage of a refused call that was reported meanwhile is given back.
      if (operation.verb === 'give' && isWindow(operation.give.limit)) {
        const { key, limit, at = 0, amount } = operation.give
        add(charged, `${node} ${nameOf(key)} ${windowNumberOf(limit, at)}`, -amount)
      }
      const charge = chargeOf(request)
      const account = charge === undefined ? undefined : truth.accountOf(node, charge.key)
      if (charge === undefined || account === undefined || !isWindow(charge.limit)) return undefined
      // Calls that were refused are charged too.
      if (charge.limit.onRefusal === 'overdraw') return undefined
      const id = `${node} ${account.counter.name} ${windowNumberOf(charge.limit, charge.at)}`
      const sum = add(charged, id, charge.amount)
      const most = (spent.get(id) ?? 0) + truth.pendingUnits(node, account.counter)
      if (isUnknowable(truth, node) || sum <= most) return undefined
      return `${request.node} charged ${sum} to a window of ${account.counter.rule} in which it admitted ${spent.get(id) ?? 0}`
    },
  }
}

/** It was spent between arrival and decision, by a clock that may be off. */
function spentWithin({
  call,
  trueUs,
  storeUs,
  nodeUs,
  uncertaintyUs,
}: DecisionRecord): [number, number] {
  const off = Number.isFinite(uncertaintyUs) ? uncertaintyUs : 0
  const earliest = Math.min(storeUs, nodeUs - off) - (trueUs - call.startedUs)
  return [earliest - ROUNDING_US, Math.max(storeUs, nodeUs) + ROUNDING_US]
}

function isUnknowable(truth: GroundTruth, node: string): boolean {
  return truth.hasFault('failover') || truth.hasFault('store-jump') || truth.wasSuspended(node)
}

function isWindow({ algorithm }: Limit): boolean {
  return algorithm === 'fixed-window' || algorithm === 'sliding-window-counter'
}

function add(sums: Map<string, number>, id: string, units: number): number {
  const sum = (sums.get(id) ?? 0) + units
  sums.set(id, sum)
  return sum
}

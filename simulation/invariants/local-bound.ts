/**
 * Over-admission of local counts: at most what is offered while a unit spent on one node is not
 * known on the others, and at most what n-1 nodes can admit by themselves meanwhile, above what the
 * algorithm allows. A unit is reported within one `syncEvery` T and read by the others within one
 * more, each after the time D that a message and its answer are under way: so meanwhile is 2T + 2D.
 * A node by itself admits its limit, and a bucket what it regains beside. Around the edge of two
 * windows each of them may have as much. The first calls of a caller that come together are decided
 * by the store, and only one of them is known here before the next read.
 *
 * Checked when the run is over, where nothing goes wrong and the fleet stays the same: while a side
 * is cut off it admits the whole limit.
 */
import { type Counter, grantsOf, nameOf, type Truth } from '../truth.js'
import type { MakeInvariant } from './invariant.js'
import { atOnce, Meter, perUs } from './meter.js'

interface Units {
  readonly us: number
  readonly units: number
}

interface History {
  readonly counter: Counter
  readonly offered: Units[]
  readonly admitted: Units[]
  /** What the store granted itself. */
  readonly granted: Units[]
}

export const localBound: MakeInvariant = (truth) => {
  const histories = new Map<string, History>()
  const historyOf = (counter: Counter) => {
    const known = histories.get(counter.name)
    const history = known ?? { counter, offered: [], admitted: [], granted: [] }
    histories.set(counter.name, history)
    return history
  }
  return {
    name: 'local counts over-admit within their bound',
    onDecided: ({ called, spent, storeUs, trueUs }) => {
      if (!truth.isSteady) return undefined
      const admitted = new Set(spent.map(({ wanted }) => wanted))
      for (const wanted of called.takes.flat()) {
        const { counter } = wanted.account
        if (counter.of.coordination !== 'local') continue
        const history = historyOf(counter)
        history.offered.push({ us: trueUs, units: wanted.amount })
        if (admitted.has(wanted)) history.admitted.push({ us: storeUs, units: wanted.amount })
      }
      return undefined
    },
    onDone: ({ request, reply, trueUs }) => {
      for (const { take, granted } of grantsOf(request, reply)) {
        const counter = truth.counters.get(nameOf(take.key))
        if (counter?.of.coordination !== 'local') continue
        historyOf(counter).granted.push({ us: trueUs, units: granted })
      }
      return undefined
    },
    atEnd: () => {
      for (const history of histories.values()) {
        const excess = worst(history, truth)
        if (excess > 0) return `${excess.toFixed(3)} above the bound of ${history.counter.of.rule}`
      }
      return undefined
    },
  }
}

function worst({ counter, offered, admitted, granted }: History, truth: Truth): number {
  const { limit, of } = counter
  const nodes = truth.scenario.nodes.length
  const unknownUs = 2 * (of.syncEveryMs + truth.reachMs) * 1000
  const alone = limit.capacity + perUs(limit) * unknownUs
  const first = mostWithin(granted, unknownUs)
  const extra = Math.min((nodes - 1) * alone + first, mostWithin(offered, unknownUs))
  const underWay = perUs(limit) * truth.reachMs * 1000
  const times = limit.algorithm === 'token-bucket' || limit.algorithm === 'gcra' ? 1 : 2
  const meter = new Meter(atOnce(limit) + times * extra + underWay, perUs(limit))
  return admitted.reduce((most, { us, units }) => Math.max(most, meter.add(units, us)), 0)
}

function mostWithin(units: readonly Units[], us: number): number {
  let most = 0
  let sum = 0
  let from = 0
  for (const each of units) {
    sum += each.units
    for (
      let first = units[from];
      first !== undefined && each.us - first.us > us;
      first = units[from]
    ) {
      sum -= first.units
      from += 1
    }
    most = Math.max(most, sum)
  }
  return most
}

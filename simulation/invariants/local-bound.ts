/**
 * Over-admission of local counts: at most what is offered while a unit spent on one node is not
 * known on the others, and at most what n-1 nodes can admit by themselves meanwhile, above what the
 * algorithm allows.
 *
 * Meanwhile is T + D. Nodes merge twice in each `syncEvery` T, so a unit is reported after T/2 at
 * most and on its way once; then another node reads after T/2 at most, which is there and back. So
 * D is three ways, one and a half exchanges. A round that is answered later than the next one is
 * due takes that one's place, so where an exchange is longer than T/2, rounds are as far apart.
 *
 * A node by itself admits its limit, and a bucket what it regains beside; so may be calls of a new
 * caller that are on their way to the store while others are decided here already. Around the edge
 * of two windows each of them may have as much; within one window it is once. What receipts return
 * may be admitted again.
 *
 * Checked when the run is over, where nothing goes wrong, the fleet stays the same, and the counter
 * has one limit and was not reset: while a side is cut off it admits the whole limit.
 */
import type { CompiledLimit, Limit } from '@sluice/core'
import { type Counter, isBucket, isEver, isPlain, nameOf } from '../counter.js'
import { grantsOf, type Truth } from '../truth.js'
import type { MakeInvariant } from './invariant.js'
import { atOnce, Meter, perUs } from './meter.js'

const ROUNDS_PER_INTERVAL = 2
const WAYS = 3
/** Of the clocks that rounds go by, and of what is rounded to milliseconds. */
const DRIFT = 1 / 1000
const ROUNDING_US = 1000

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
  refunded: number
}

export const localBound: MakeInvariant = (truth) => {
  const histories = new Map<string, History>()
  const historyOf = (counter: Counter) => {
    const known = histories.get(counter.name)
    const history = known ?? { counter, offered: [], admitted: [], granted: [], refunded: 0 }
    histories.set(counter.name, history)
    return history
  }
  return {
    name: 'local counts over-admit within their bound',
    onDecided: ({ called, spent, storeUs, trueUs }) => {
      if (!truth.isSteady) return undefined
      const admitted = new Set(spent.map(({ wanted }) => wanted))
      for (const wanted of called.takes.flat()) {
        if (wanted.of.coordination !== 'local') continue
        const history = historyOf(wanted.account.counter)
        history.offered.push({ us: trueUs, units: wanted.amount })
        if (admitted.has(wanted)) history.admitted.push({ us: storeUs, units: wanted.amount })
      }
      return undefined
    },
    onDone: ({ request, reply, trueUs }) => {
      for (const { take, granted } of grantsOf(request, reply)) {
        const counter = truth.counters.get(nameOf(take.key))
        if (counter === undefined || !isEver(counter, 'local')) continue
        historyOf(counter).granted.push({ us: trueUs, units: granted })
      }
      return undefined
    },
    onRefund: ({ key, amount }) => {
      const history = histories.get(nameOf(key))
      if (history !== undefined) history.refunded += amount
      return undefined
    },
    atEnd: () => {
      for (const history of histories.values()) {
        const [of] = history.counter.variants
        if (of === undefined || !isPlain(history.counter)) continue
        const excess = worst(history, of, truth)
        if (excess > 0) return `${excess.toFixed(3)} above the bound of ${of.rule}`
      }
      return undefined
    },
  }
}

function worst(history: History, of: CompiledLimit, truth: Truth): number {
  const { offered, admitted, granted, refunded } = history
  const { limit } = of
  const nodes = truth.scenario.nodes.length
  const unknown = unknownUs(of, truth)
  const alone = limit.capacity + perUs(limit) * unknown
  const underWay = mostWithin(granted, truth.reachMs * 1000)
  const extra = Math.min((nodes - 1) * alone + underWay, mostWithin(offered, unknown)) + refunded
  const isWindow = !isBucket(limit)
  const inTime = perUs(limit) * truth.reachMs * 1000
  const most = atOnce(limit) + (isWindow ? 2 : 1) * extra + inTime
  const meter = new Meter(most, perUs(limit))
  const excess = admitted.reduce((sum, { us, units }) => Math.max(sum, meter.add(units, us)), 0)
  return isWindow
    ? Math.max(excess, mostInWindow(admitted, limit, truth) - limit.max - extra)
    : excess
}

/** How long a unit spent on one node may be unknown on another. */
export function unknownUs({ syncEveryMs }: CompiledLimit, { reachMs }: Truth): number {
  const roundMs = syncEveryMs / ROUNDS_PER_INTERVAL
  const apartMs = roundMs * Math.max(1, Math.ceil(reachMs / roundMs))
  const ms = ROUNDS_PER_INTERVAL * apartMs + (WAYS * reachMs) / 2
  return ms * 1000 * (1 + DRIFT) + ROUNDING_US
}

/** In one window by the store's clock, without what is so near to an edge as to be in either. */
function mostInWindow(admitted: readonly Units[], { windowUs }: Limit, { reachMs }: Truth): number {
  const counts = new Map<number, number>()
  const nearUs = reachMs * 1000 + ROUNDING_US
  for (const { us, units } of admitted) {
    const window = Math.floor((us - nearUs) / windowUs)
    if (window !== Math.floor((us + nearUs) / windowUs)) continue
    counts.set(window, (counts.get(window) ?? 0) + units)
  }
  return Math.max(0, ...counts.values())
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

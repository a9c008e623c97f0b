/**
 * Over-admission of local counts: above what the algorithm allows, at most the calls made while a
 * unit spent on one node is not known to the others, and at most what n-1 nodes can admit by
 * themselves in that time.
 *
 * That time is T + D. Nodes merge twice in each `syncEvery` T, so a unit is reported after at most
 * T/2, plus one way; another node reads it after at most T/2 more, plus a round trip. So D is three
 * ways, one and a half round trips. A round that is answered after the next one is due replaces
 * that one, so if a round trip is longer than T/2, rounds are that far apart.
 *
 * A node by itself admits its limit, and a bucket also what refills. Calls of a new caller that are
 * in flight to the store while this node already decides others may be admitted in addition. Units
 * that receipts return may be admitted again.
 *
 * The bound holds each time that a caller crosses its limit, not for a whole run:
 * - No node knows anything of the next window when it begins, and the excess of the last one is not
 *   charged to it. So each window that an interval touches may have the excess, at most
 *   t/window + 2 of them; if `syncEvery` is as long as the window, each window admits a limit for
 *   every node.
 * - A bucket pays the excess back before it admits again, but owes at most max(burst, n, n*rate*T):
 *   what is reported beyond that is forgiven, and may be admitted once more.
 *
 * Checked at the end of runs without faults in which the fleet stays the same and the counter has
 * one limit and no reset: during a partition each side admits the whole limit.
 */
import { type CompiledLimit, type Limit, windowNumberOf } from '@sluice/core'
import { type Counter, isBucket, isEver, hasOneLimit, nameOf } from '../sim-counter.js'
import { chargeOf, grantsOf, type GroundTruth } from '../ground-truth.js'
import type { MakeInvariant } from './invariant.js'
import { atOnce, Meter, perUs } from './meter.js'

const ROUNDS_PER_INTERVAL = 2
const WAYS = 3
/** Drift of the clocks that time the rounds, and rounding to milliseconds. */
const DRIFT = 1 / 1000
const ROUNDING_US = 1000

interface Units {
  readonly us: number
  readonly units: number
}

/** By the store's clock: when it was decided, and when the call arrived. */
interface LocalAdmission extends Units {
  readonly cameUs: number
}

interface History {
  readonly counter: Counter
  readonly offered: Units[]
  readonly admitted: LocalAdmission[]
  /** Units granted by the store itself. */
  readonly granted: Units[]
  /** Those and the units that nodes reported, by the store's clock. */
  readonly counted: Units[]
  /** By the time of admission. */
  readonly refunded: Units[]
}

export const localBound: MakeInvariant = (truth) => {
  const histories = new Map<string, History>()
  const historyOf = (counter: Counter) => {
    const known = histories.get(counter.name)
    const history = known ?? emptyHistory(counter)
    histories.set(counter.name, history)
    return history
  }
  return {
    name: 'local counts over-admit within their bound',
    onDecision: ({ call, spent, storeUs, trueUs }) => {
      if (!truth.isSteady) return undefined
      const admitted = new Set(spent.map(({ take }) => take))
      for (const take of call.takes.flat()) {
        if (take.compiled.coordination !== 'local') continue
        const history = historyOf(take.account.counter)
        history.offered.push({ us: trueUs, units: take.amount })
        if (!admitted.has(take)) continue
        const cameUs = call.startedStoreUs
        history.admitted.push({ us: storeUs, cameUs, units: take.amount })
      }
      return undefined
    },
    onExecution: ({ request, reply, trueUs, storeUs }) => {
      const charge = reply.late ? undefined : chargeOf(request)
      const charged = charge && truth.counters.get(nameOf(charge.key))
      if (charge !== undefined && charged !== undefined && isEver(charged, 'local'))
        historyOf(charged).counted.push({ us: storeUs, units: charge.amount })
      for (const { take, granted } of grantsOf(request, reply)) {
        const counter = truth.counters.get(nameOf(take.key))
        if (counter === undefined || !isEver(counter, 'local')) continue
        const history = historyOf(counter)
        history.granted.push({ us: trueUs, units: granted })
        history.counted.push({ us: storeUs, units: granted })
      }
      return undefined
    },
    onRefund: ({ key, amount, at }) => {
      histories.get(nameOf(key))?.refunded.push({ us: at, units: amount })
      return undefined
    },
    atEnd: () => {
      for (const history of histories.values()) {
        const [compiled] = history.counter.variants
        if (compiled === undefined || !hasOneLimit(history.counter)) continue
        const excess = worst(history, compiled, truth)
        if (excess > 0) return `${excess.toFixed(3)} above the bound of ${compiled.rule}`
      }
      return undefined
    },
  }
}

function emptyHistory(counter: Counter): History {
  return { counter, offered: [], admitted: [], granted: [], counted: [], refunded: [] }
}

function worst(history: History, compiled: CompiledLimit, truth: GroundTruth): number {
  const { offered, granted, refunded } = history
  const { limit } = compiled
  const nodes = truth.scenario.nodes.length
  const reachUs = truth.reachMs * 1000
  const unknown = unknownUs(compiled, truth)
  const isWindow = !isBucket(limit)
  const alone = isWindow ? limit.max : limit.capacity + perUs(limit) * unknown
  const underWay = mostWithin(granted, reachUs)
  const extra = Math.min((nodes - 1) * alone + underWay, mostWithin(offered, unknown))
  const again = refunded.reduce((sum, { units }) => sum + units, 0)
  if (!isWindow) {
    const most = atOnce(limit) + extra + again + perUs(limit) * reachUs
    const forgiven = forgivenOf(history, compiled, nodes, extra)
    return worstInterval(history, new Meter(most, perUs(limit)), forgiven)
  }
  const rate = perUs(limit) + extra / limit.windowUs
  const most = atOnce(limit) + 2 * extra + again + rate * reachUs
  return Math.max(
    worstInterval(history, new Meter(most, rate), []),
    mostInWindow(history, limit, truth) - limit.max - extra,
  )
}

/** The largest excess of any interval over its bound. Forgiven units do not count. */
function worstInterval({ admitted }: History, meter: Meter, forgiven: readonly Units[]): number {
  let most = 0
  let next = 0
  for (const { us, units } of admitted) {
    for (let each = forgiven[next]; each !== undefined && each.us <= us; each = forgiven[next]) {
      meter.add(0, each.us)
      meter.take(each.units)
      next += 1
    }
    most = Math.max(most, meter.add(units, us))
  }
  return most
}

/**
 * Units counted beyond all that a bucket can hold and owe, by the documented debt, not by the one
 * that it was charged with. A node that knows the debt admits nothing until it is paid, so until
 * then these are at most one excess. Units that were given back may have left the bucket before.
 */
function forgivenOf(
  { counted }: History,
  { limit, syncEveryMs }: CompiledLimit,
  nodes: number,
  extra: number,
): readonly Units[] {
  const rate = perUs(limit)
  const debt = Math.max(limit.capacity, nodes, nodes * rate * syncEveryMs * 1000)
  const bucket = new Meter(limit.capacity + debt, rate)
  let paidUs = -Infinity
  let left = 0
  return counted.flatMap(({ us, units }) => {
    const over = bucket.add(units, us)
    if (over <= 0) return []
    bucket.take(over)
    if (us >= paidUs) {
      paidUs = us + debt / rate
      left = extra
    }
    const forgiven = Math.min(over, left)
    left -= forgiven
    return { us, units: forgiven }
  })
}

/** How long a unit spent on one node may be unknown to another. */
export function unknownUs({ syncEveryMs }: CompiledLimit, { reachMs }: GroundTruth): number {
  const roundMs = syncEveryMs / ROUNDS_PER_INTERVAL
  const apartMs = roundMs * Math.max(1, Math.ceil(reachMs / roundMs))
  const ms = ROUNDS_PER_INTERVAL * apartMs + (WAYS * reachMs) / 2
  return ms * 1000 * (1 + DRIFT) + ROUNDING_US
}

/**
 * Units in one window by the store's clock, without refunds to it. A call so close to an edge that
 * it may belong to either window is not counted.
 */
function mostInWindow(
  { admitted, refunded }: History,
  limit: Limit,
  { reachMs }: GroundTruth,
): number {
  const counts = new Map<number, number>()
  const nearUs = reachMs * 1000 + ROUNDING_US
  for (const { us, cameUs, units } of admitted) {
    const window = windowNumberOf(limit, cameUs - nearUs)
    if (window !== windowNumberOf(limit, us + nearUs)) continue
    counts.set(window, (counts.get(window) ?? 0) + units)
  }
  for (const { us, units } of refunded) {
    const window = windowNumberOf(limit, us)
    counts.set(window, (counts.get(window) ?? 0) - units)
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

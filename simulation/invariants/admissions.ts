/**
 * Over-admission of exact and leased rules from end to end, under every fault: in every interval t
 * the nodes together admit at most what the algorithm allows, and of leased rules n*q more, which
 * is what they can have drawn before it. In a fixed window they admit at most max.
 *
 * A call counts in an interval in which it both arrived and was decided, so messages in flight
 * need no allowance. The q of a node is that of the smallest fleet it ever observed. The bound is
 * higher only for these documented reasons:
 * - a decision by posture is made without the store, and has a bound of its own;
 * - a failover forgets what was granted within its lag, at most one limit;
 * - a step of the store's clock adds what refills in that time, at most one limit;
 * - a reset forgets one limit, and a refund what it returns; a bucket that switches to another
 *   limit forgets what that limit cannot hold, and a fraction of a unit;
 * - units taken for a call that a posture then refused stay taken until they are given back, and
 *   an exact bucket has refilled some of them by then;
 * - fixed windows: a machine that slept while its wall clock was set back has no clock left to end
 *   a lease by, and may spend its q in a later window.
 * A shadow rule passes without a report if the store does not answer, so shadow rules are checked
 * only in runs without faults. Rules that were ever local or split have bounds of their own.
 */
import { windowNumberOf } from '@sluice/core'
import type { DecisionRecord, TakeRecord } from '../call-log.js'
import { type Counter, isCallerWindow, isEver, maxHeld, mostOf, nameOf } from '../sim-counter.js'
import { type GroundTruth, type StoreDisruption } from '../ground-truth.js'
import type { MakeInvariant } from './invariant.js'
import { isConfused } from './lease-time.js'
import { atOnce, mostIn } from './meter.js'

/** Tolerance for the store's clock and for rounding to milliseconds. */
const DRIFT = 2 / 10_000
const ROUNDING_US = 2000
const ROUNDING = 1e-6
/** How long a lease of a window that was open when the clock stepped may still be spent. */
const LEASE_US_MAX = 2_000_000

interface AdmissionHistory {
  /** Decided calls by their true time of arrival. */
  readonly admitted: { readonly us: number; readonly units: number }[]
  readonly refunded: { readonly us: number; readonly units: number }[]
  /** By the number of the window. */
  readonly counts: Map<number, number>
}

export const admissions: MakeInvariant = (truth) => {
  const histories = new Map<string, AdmissionHistory>()
  const historyOf = (name: string) => {
    const known = histories.get(name)
    const history = known ?? { admitted: [], refunded: [], counts: new Map<number, number>() }
    histories.set(name, history)
    return history
  }
  return {
    name: 'no more is admitted than the limit and its leases',
    onDecision: (record) => {
      for (const { take, byPosture } of record.spent) {
        const { counter } = take.account
        if (byPosture || take.amount === 0 || !isBound(counter, truth)) continue
        const history = historyOf(counter.name)
        const { limit } = take.compiled
        const isAligned = limit.algorithm === 'fixed-window' && !isCallerWindow(limit)
        const count = isAligned ? countWindow : countIntervals
        const excess = count(history, take, record, truth)
        if (excess > 0) return `${excess.toFixed(3)} above the bound of ${counter.rule}`
      }
      return undefined
    },
    onRefund: ({ key, amount, at, trueUs }) => {
      const counter = truth.counters.get(nameOf(key))
      const [compiled] = counter?.variants ?? []
      if (counter === undefined || compiled === undefined) return undefined
      const { refunded, counts } = historyOf(counter.name)
      // The store applies it a little later.
      refunded.push({ us: trueUs + truth.scenario.settings.deadlineMs * 1000, units: amount })
      const window = windowNumberOf(compiled.limit, at)
      counts.set(window, (counts.get(window) ?? 0) - amount)
      return undefined
    },
  }
}

function isBound(counter: Counter, truth: GroundTruth): boolean {
  if (isEver(counter, 'local') || isEver(counter, 'split')) return false
  return !counter.isShadow || truth.isCalm
}

/** A call around an edge may belong to either window, and is counted in none. */
function countWindow(
  history: AdmissionHistory,
  { account, compiled, amount }: TakeRecord,
  record: DecisionRecord,
  truth: GroundTruth,
) {
  const { counter } = account
  const { windowUs } = compiled.limit
  const { call, storeUs, trueUs } = record
  const window = windowNumberOf(compiled.limit, call.startedStoreUs - ROUNDING_US)
  if (window !== windowNumberOf(compiled.limit, storeUs)) return 0
  const count = (history.counts.get(window) ?? 0) + amount
  history.counts.set(window, count)
  const max = mostOf(counter, (limit) => limit.max)
  const sinceUs = trueUs - windowUs - LEASE_US_MAX
  let most = max + confusedUnits(counter, truth)
  for (const disruption of truth.disruptions) {
    if (disruption.trueUs < sinceUs) continue
    most +=
      Math.min(max, disruption.undone.get(counter.name) ?? 0) + (disruption.stepUs === 0 ? 0 : max)
  }
  for (const us of counter.resetsUs) if (us >= trueUs - windowUs - ROUNDING_US) most += max
  return count - most
}

/** The largest excess over its bound of any interval that ends now. */
function countIntervals(
  history: AdmissionHistory,
  { account, amount }: TakeRecord,
  record: DecisionRecord,
  truth: GroundTruth,
) {
  const { counter } = account
  const { call, trueUs } = record
  insert(history.admitted, call.startedUs, amount)
  const leases = maxHeld(counter, truth.fewestNodes.values())
  let sum = 0
  let worst = 0
  for (let i = history.admitted.length - 1; i >= 0; i--) {
    const entry = history.admitted[i]
    if (entry === undefined) continue
    sum += entry.units
    const longUs = (trueUs - entry.us) * (1 + DRIFT)
    const allowed = mostOf(counter, (limit) => mostIn(limit, longUs)) + leases + ROUNDING
    if (sum - allowed <= worst) continue
    worst = Math.max(worst, sum - allowed - excused(history, counter, entry.us, truth))
  }
  return worst
}

/** The allowance that events since then add. */
function excused(
  history: AdmissionHistory,
  counter: Counter,
  sinceUs: number,
  truth: GroundTruth,
): number {
  const limit = mostOf(counter, atOnce)
  let units = 0
  for (const disruption of truth.disruptions)
    if (disruption.trueUs >= sinceUs) units += added(disruption, counter, limit)
  for (const us of counter.resetsUs) if (us >= sinceUs) units += limit
  for (const { us, units: more } of counter.forgiven) if (us >= sinceUs) units += more
  for (const { takenUs, us, units: back } of isEver(counter, 'leased') ? [] : counter.returned) {
    if (takenUs < sinceUs && us >= sinceUs) units += back
  }
  for (const refund of history.refunded) if (refund.us >= sinceUs) units += refund.units
  return units
}

function added({ stepUs, undone }: StoreDisruption, counter: Counter, limit: number): number {
  const forgotten = Math.min(limit, undone.get(counter.name) ?? 0)
  if (stepUs === 0) return forgotten
  const [compiled] = counter.variants
  const isWithin = Math.abs(stepUs) <= (compiled?.limit.windowUs ?? 0)
  if (!isWithin || compiled?.limit.algorithm === 'sliding-window-log') return forgotten + limit
  const regained = mostOf(counter, ({ max, windowUs }) => (max / windowUs) * stepUs)
  return forgotten + Math.min(limit, Math.max(0, regained))
}

function confusedUnits(counter: Counter, truth: GroundTruth): number {
  const sizes = [...truth.fewestNodes].flatMap(([node, size]) =>
    isConfused(node, truth) ? size : [],
  )
  return maxHeld(counter, sizes)
}

function insert(entries: AdmissionHistory['admitted'], us: number, units: number): void {
  let at = entries.length
  while (at > 0 && (entries[at - 1]?.us ?? 0) > us) at -= 1
  entries.splice(at, 0, { us, units })
}

/**
 * The store grants no more than the algorithm allows: over-admission of an exact rule is 0.
 *
 * By the store's own clock, in every interval t, what it granted less what came back is at most
 * what the algorithm admits at once plus its rate times t; in a fixed window at most max; in any
 * window of a log at most max. A failover or a step of the store's clock adds at most one limit
 * each: a counter can only fall back to an older value, and a window can only open once more. So
 * does a reset. For a counter with several limits, by tiers or changes, the largest applies, and
 * what one of them cannot hold is forgotten.
 */
import { windowNumberOf } from '@sluice/core'
import type { Execution } from '../sim-server.js'
import { type Counter, isCallerWindow, isEver, mostOf, nameOf } from '../sim-counter.js'
import { grantsOf, type GroundTruth } from '../ground-truth.js'
import type { MakeInvariant } from './invariant.js'
import { atOnce, Meter, perUs } from './meter.js'

export const storeBound: MakeInvariant = (truth) => {
  const trackers = new Map<string, GrantTracker>()
  const trackerOf = (counter: Counter) => {
    const tracker = trackers.get(counter.name) ?? trackerFor(counter)
    trackers.set(counter.name, tracker)
    return tracker
  }
  return {
    name: 'the store grants no more than the limit',
    onExecution: (execution) => {
      takeBack(execution, truth, trackerOf)
      for (const { take, granted, at, isOwed } of grantsOf(execution.request, execution.reply)) {
        const counter = truth.counters.get(nameOf(take.key))
        if (counter === undefined || isEver(counter, 'local')) continue
        if (isOwed) {
          trackerOf(counter).charge?.(granted, at, execution.storeUs)
          continue
        }
        const excess = trackerOf(counter).add(granted, at, execution.storeUs)
        const events = truth.disruptions.length + counter.resetsUs.length
        const forgiven = counter.forgiven.reduce((sum, { units }) => sum + units, 0)
        const allowed = events * mostOf(counter, atOnce) + forgiven
        if (excess <= allowed) continue
        return `${excess.toFixed(3)} above the limit of ${counter.rule} at ${execution.storeUs}`
      }
      return undefined
    },
  }
}

interface GrantTracker {
  /** `at` is the time that the units belong to. */
  add(units: number, at: number, nowUs: number): number
  take(units: number, at: number): void
  /** Units spent without the store, which only move the start of a caller's window. */
  charge?(units: number, at: number, nowUs: number): void
}

function trackerFor(counter: Counter): GrantTracker {
  const [compiled] = counter.variants
  const { windowUs = 1, algorithm, calendar } = compiled?.limit ?? {}
  const max = () => mostOf(counter, (limit) => limit.max)
  if (compiled !== undefined && isCallerWindow(compiled.limit))
    return callerWindowTracker(windowUs, max)
  if (algorithm === 'fixed-window') {
    const counts = new Map<number, number>()
    const change = (at: number, by: number) => {
      const window = windowNumberOf({ windowUs, calendar }, at)
      const count = Math.max(0, (counts.get(window) ?? 0) + by)
      counts.set(window, count)
      return count - max()
    }
    return {
      add: (units, at) => change(at, units),
      take: (units, at) => void change(at, -units),
    }
  }
  if (algorithm === 'sliding-window-log') return logTracker(windowUs, max)
  const meter = new Meter(0, 0)
  return {
    add: (units, _, nowUs) => {
      meter.widen(mostOf(counter, atOnce), mostOf(counter, perUs))
      return meter.add(units, nowUs, windowUs)
    },
    take: (units) => meter.take(units),
  }
}

/** The window begins with the first unit, also one that was spent without the store. */
function callerWindowTracker(windowUs: number, max: () => number): GrantTracker {
  let start = -Infinity
  let granted = 0
  let charged = 0
  const open = (at: number) => {
    if (at < start + windowUs && granted + charged > 0) return
    start = at
    granted = 0
    charged = 0
  }
  return {
    add: (units, at) => {
      open(at)
      granted += units
      return granted - max()
    },
    take: (units, at) => {
      if (at < start || at >= start + windowUs) return
      const ofCharged = Math.max(0, units - granted)
      granted = Math.max(0, granted - units)
      charged = Math.max(0, charged - ofCharged)
    },
    charge: (units, at, nowUs) => {
      if (at + windowUs <= nowUs) return
      open(nowUs)
      start = Math.min(start, at)
      charged += units
    },
  }
}

function logTracker(windowUs: number, max: () => number): GrantTracker {
  let entries: { at: number; units: number }[] = []
  return {
    add: (units, at) => {
      entries = entries.filter((entry) => entry.at > at - windowUs)
      entries.push({ at, units })
      return entries.reduce((sum, entry) => sum + entry.units, 0) - max()
    },
    take: (units, at) => {
      const entry = entries.find((each) => each.at === at && each.units >= units)
      if (entry !== undefined) entry.units -= units
    },
  }
}

function takeBack(
  execution: Execution,
  truth: GroundTruth,
  trackerOf: (counter: Counter) => GrantTracker,
): void {
  const { operation } = execution.request
  const { storeUs } = execution
  if (execution.reply.late) return
  for (const { take, granted } of truth.reservations.lastEnd?.changes ?? []) {
    const counter = truth.counters.get(nameOf(take.key))
    if (counter === undefined || granted === 0) continue
    if (granted < 0) trackerOf(counter).take(-granted, take.at ?? storeUs)
    else trackerOf(counter).charge?.(granted, storeUs, storeUs)
  }
  if (operation.verb === 'charge') {
    const { key, amount, at } = operation.charge
    const charged = truth.counters.get(nameOf(key))
    if (charged !== undefined) trackerOf(charged).charge?.(amount, at, storeUs)
  }
  if (operation.verb !== 'give') return
  const counter = truth.counters.get(nameOf(operation.give.key))
  if (counter !== undefined)
    trackerOf(counter).take(operation.give.amount, operation.give.at ?? storeUs)
}

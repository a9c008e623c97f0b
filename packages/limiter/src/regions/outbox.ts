/**
 * What one other region does not know yet: units that were taken and returned here, by counter and
 * window. Units of a window before the last one do not matter any more and are dropped.
 */
import { type CounterKey, type Limit } from '@sluice/core'
import { CounterMap } from '../coordination/local/counter-map.js'
import { UnreportedUsage, type Usage } from '../coordination/local/unreported-usage.js'

/** The most counters that wait for one region, about 40 MB; beyond it the oldest are dropped. */
const OUTBOX_COUNTERS_MAX = 100_000

/** What a region is told of one counter, in this order. */
export interface OutboxReport {
  readonly key: CounterKey
  readonly limit: Limit
  /** Oldest window first, like the next. */
  readonly spent: readonly Usage[]
  readonly returned: readonly Usage[]
  /** When the oldest of it was added, in milliseconds of a clock that never steps. */
  readonly sinceMs: number
  /** The number of the drain that removed it. */
  readonly drain: number
}

/** One change of a counter: the units, when they were taken in the store's time, and when now. */
export interface OutboxChange {
  readonly key: CounterKey
  readonly limit: Limit
  readonly amount: number
  readonly at: number
  readonly nowMs: number
}

class PendingCounter {
  readonly key: CounterKey
  readonly sinceMs: number
  readonly spent: UnreportedUsage
  limit: Limit
  /** Most counters have no units returned. */
  returned: UnreportedUsage | undefined

  constructor(key: CounterKey, limit: Limit, sinceMs: number) {
    this.key = key
    this.limit = limit
    this.sinceMs = sinceMs
    this.spent = new UnreportedUsage(limit)
  }

  get isEmpty(): boolean {
    return this.spent.isEmpty && (this.returned?.isEmpty ?? true)
  }

  report(drain: number): OutboxReport {
    const { key, limit, sinceMs, returned } = this
    const spent = this.spent.usages
    return { key, limit, spent, returned: returned?.usages ?? [], sinceMs, drain }
  }

  /** Drops what is too old at `now`; returns the units that were spent. */
  expire(now: number): number {
    this.returned?.expire(now)
    return this.spent.expire(now)
  }
}

/** A counter that was reset: what was drained until then is not put back. */
interface ForgottenCounter {
  readonly key: CounterKey
  drain: number
}

export class Outbox {
  readonly #counters = new CounterMap<PendingCounter>()
  readonly #countersMax: number
  /** Under the windows of a limit that has changed since. */
  #replaced: PendingCounter[] = []
  readonly #forgotten = new CounterMap<ForgottenCounter>()
  #drains = 0
  #dropped = 0

  constructor(countersMax = OUTBOX_COUNTERS_MAX) {
    this.#countersMax = countersMax
  }

  /** Counters that wait. */
  get size(): number {
    return this.#counters.size + this.#replaced.length
  }

  /** Units that the region will never learn of: too old, or of too many counters. */
  get dropped(): number {
    return this.#dropped
  }

  /** When the oldest waiting unit was added; undefined if none waits. */
  oldestMs(): number | undefined {
    let oldestMs = Infinity
    for (const { sinceMs } of this.#replaced) oldestMs = Math.min(oldestMs, sinceMs)
    for (const { sinceMs } of this.#counters) oldestMs = Math.min(oldestMs, sinceMs)
    return oldestMs === Infinity ? undefined : oldestMs
  }

  /** Adds units that were taken. */
  spend({ key, limit, amount, at, nowMs }: OutboxChange): void {
    // Finding it may drop another one.
    const counter = this.find(key, limit, nowMs)
    this.#dropped += counter.spent.add(amount, at)
  }

  /** Adds units that were returned; what the region does not know yet needs no return. */
  giveBack({ key, limit, amount, at, nowMs }: OutboxChange): void {
    const counter = this.find(key, limit, nowMs)
    const rest = amount - counter.spent.takeBack(amount, at)
    if (rest > 0) {
      counter.returned ??= new UnreportedUsage(limit)
      counter.returned.add(rest, at)
    }
    if (counter.isEmpty) this.#counters.delete(counter)
  }

  /** Removes and returns the reports of up to `most` counters, the longest waiting first. */
  drain(most: number, now: number): readonly OutboxReport[] {
    const drain = ++this.#drains
    const reports: OutboxReport[] = []
    const add = (counter: PendingCounter) => {
      this.#dropped += counter.expire(now)
      if (!counter.isEmpty) reports.push(counter.report(drain))
    }
    for (const counter of this.#replaced.splice(0, most)) add(counter)
    for (const counter of this.#counters) {
      if (reports.length >= most) break
      this.#counters.delete(counter)
      add(counter)
    }
    return reports
  }

  /** Puts back what certainly did not run. */
  restore(report: OutboxReport, usage: Usage, kind: 'spent' | 'returned'): void {
    const { key, limit, sinceMs, drain } = report
    const forgotten = this.#forgotten.get(key)
    if (forgotten !== undefined && drain <= forgotten.drain) return
    const counter = this.find(key, limit, sinceMs)
    if (kind === 'spent') this.#dropped += counter.spent.add(usage.amount, usage.at)
    else {
      counter.returned ??= new UnreportedUsage(limit)
      counter.returned.add(usage.amount, usage.at)
    }
    if (counter.isEmpty) this.#counters.delete(counter)
  }

  /** Drops what waits for a counter that was reset, and what comes back of it. */
  forget(key: CounterKey): void {
    const counter = this.#counters.get(key)
    if (counter !== undefined) this.#counters.delete(counter)
    this.#replaced = this.#replaced.filter(({ key: { hi, lo } }) => hi !== key.hi || lo !== key.lo)
    const known = this.#forgotten.get(key)
    const drain = this.#drains
    if (known !== undefined) known.drain = drain
    else if (this.#forgotten.size < this.#countersMax) this.#forgotten.add({ key, drain })
  }

  /** Called when nothing that was drained can come back any more. */
  onSettled(): void {
    for (const entry of this.#forgotten) this.#forgotten.delete(entry)
  }

  /** Drops what is too old at `now`, while nothing is drained. */
  expire(now: number): void {
    for (const counter of this.#replaced) this.#dropped += counter.expire(now)
    this.#replaced = this.#replaced.filter(({ isEmpty }) => !isEmpty)
    for (const counter of this.#counters) {
      this.#dropped += counter.expire(now)
      if (counter.isEmpty) this.#counters.delete(counter)
    }
  }

  private find(key: CounterKey, limit: Limit, nowMs: number): PendingCounter {
    const known = this.#counters.get(key)
    if (known !== undefined) {
      if (known.limit === limit || hasSameWindows(known.limit, limit)) {
        known.limit = limit
        return known
      }
      this.#counters.delete(known)
      this.#replaced.push(known)
    }
    if (this.size >= this.#countersMax) this.evict()
    const counter = new PendingCounter(key, limit, nowMs)
    this.#counters.add(counter)
    return counter
  }

  /** The counters are in the order in which they were added. */
  private evict(): void {
    const [replaced] = this.#replaced.splice(0, 1)
    if (replaced !== undefined) {
      this.#dropped += unitsOf(replaced.spent.usages)
      return
    }
    for (const counter of this.#counters) {
      this.#dropped += unitsOf(counter.spent.usages)
      this.#counters.delete(counter)
      return
    }
  }
}

function unitsOf(usages: readonly Usage[]): number {
  return usages.reduce((sum, { amount }) => sum + amount, 0)
}

function hasSameWindows(a: Limit, b: Limit): boolean {
  return (
    a.format === b.format &&
    a.windowUs === b.windowUs &&
    a.calendar?.unit === b.calendar?.unit &&
    a.calendar?.zone === b.calendar?.zone
  )
}

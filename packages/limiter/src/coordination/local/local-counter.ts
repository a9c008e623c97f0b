/**
 * One counter of `coordination: local`: the last known state of the store, and what this node spent
 * since.
 *
 * A bucket is charged in the store when a report arrives, not when the units were spent. What it
 * regained in between is lost to a caller that spends on several nodes: at most what it regains
 * between two rounds and in a round trip, once. A caller of one node loses nothing, because a state
 * that only its own reports changed brings no news.
 */
import {
  algorithmOf,
  type Bucket,
  type CompiledLimit,
  type CounterKey,
  type FixedWindow,
  type Limit,
  type PlannedTake,
  type SlidingCounter,
  type Step,
  stepOf,
  windowNumberOf,
} from '@sluice/core'
import type { DebtLimit } from './debt-limit.js'
import { UnreportedUsage, type Usage } from './unreported-usage.js'
import type { MutableCoordinationStats } from '../coordination-stats.js'

/** Usage that is being reported to the store. */
export class UsageReport implements Usage {
  readonly amount: number
  readonly at: number
  /** Units that were put back while the report was running. */
  returned = 0
  fate: 'sent' | 'confirmed' | 'not-run' | 'unknown' = 'sent'

  constructor({ amount, at }: Usage) {
    this.amount = amount
    this.at = at
  }
}

export class LocalCounter {
  readonly key: CounterKey
  readonly everyMs: number
  readonly stats: MutableCoordinationStats
  /** The whole limit: calls of all priorities count here. */
  compiled: CompiledLimit
  debtLimit: DebtLimit
  /** On the monotonic clock: when the current state was requested, and when a call last came. */
  readMs: number
  usedMs: number
  /** Whether there was a second call: a caller that comes once costs no read. */
  wasUsedAgain = false
  /** A round skipped it, so its state is too old: the store decides the next call. */
  isUnread = false
  /** False once it is dropped; its usage is then reported at most once more. */
  isKnown = true
  isForgotten = false
  /** Running reports. */
  reports: readonly UsageReport[] = []
  readonly #unreported: UnreportedUsage
  /** The last state read from the store, and that state plus local usage. */
  #read: unknown
  #state: unknown

  constructor(
    { key, compiled }: Pick<PlannedTake, 'key' | 'compiled'>,
    stats: MutableCoordinationStats,
    debtLimit: DebtLimit,
    state: unknown,
    sentMs: number,
  ) {
    this.key = key
    this.compiled = compiled
    this.everyMs = compiled.syncEveryMs
    this.stats = stats
    this.debtLimit = debtLimit
    this.#unreported = new UnreportedUsage(compiled.limit)
    this.#read = state
    this.#state = state
    this.readMs = sentMs
    this.usedMs = sentMs
  }

  /** Whether there is usage that may still have to be reported. */
  get isOpen(): boolean {
    return !this.#unreported.isEmpty || this.reports.length > 0
  }

  stateAt(now: number): unknown {
    return capPreviousWindow(this.#state, this.debtLimit.limit, now)
  }

  /** Whether its counts remain valid under this limit, of another tier for example. */
  canContinueAs({ limit, syncEveryMs }: CompiledLimit): boolean {
    return hasSameWindows(limit, this.compiled.limit) && syncEveryMs === this.everyMs
  }

  take(limit: Limit, { amount, gate }: PlannedTake, now: number): Step<unknown> {
    const state = this.stateAt(now)
    const step =
      gate === true
        ? stepOf({ limit, amount, gate }, state, now)
        : algorithmOf(limit).take(state, limit, amount, now)
    const next = step.state ?? step.rebased
    if (next !== undefined) this.#state = next
    if (step.granted > 0) this.stats.unreported += this.#unreported.spend(step.granted, step.at)
    return step
  }

  /**
   * Puts units back; returns how many were already reported, and must be returned to the store.
   * Units of a call that was admitted stay spent once they have refilled, here as in the store.
   */
  putBack(amount: number, at: number, now: number, wasMade: boolean): number {
    const { limit } = this.debtLimit
    const state = algorithmOf(limit).give(this.#state, limit, amount, now, at)
    const isRegained = state === undefined && algorithmOf(limit).family === 'bucket'
    if (isRegained && wasMade) return 0
    if (state !== undefined) this.#state = state
    let left = amount - this.#unreported.takeBack(amount, at)
    for (const report of this.reports) {
      if (left === 0 || !this.isSameWindow(report.at, at)) continue
      const returned = Math.min(left, report.amount - report.returned)
      report.returned += returned
      left -= returned
    }
    return isRegained ? 0 : left
  }

  /** Turns usage since the last round into reports. */
  cutReports(now: number): readonly UsageReport[] {
    this.stats.unreported += this.#unreported.expire(now)
    const reports = this.#unreported.drain().map((usage) => new UsageReport(usage))
    if (reports.length > 0) this.reports = [...this.reports, ...reports]
    return reports
  }

  /** Stops reporting, because the counter was reset. */
  forget(): void {
    this.isKnown = false
    this.isForgotten = true
    this.#unreported.drain()
  }

  /** Settles a report; usage that certainly was not charged is reported again. */
  settle(report: UsageReport): void {
    const { amount, at, returned, fate } = report
    this.reports = this.reports.filter((other) => other !== report)
    if (fate === 'confirmed') this.stats.reported += amount
    else if (this.isForgotten) return
    else if (fate === 'unknown' || !this.isKnown) this.stats.unreported += amount - returned
    else this.add(amount - returned, at)
  }

  /** Merges the state that the store returned after these reports. */
  mergeRead(read: unknown, reports: readonly UsageReport[], sentMs: number, now: number): void {
    const confirmed = reports.filter(({ fate }) => fate === 'confirmed')
    this.stats.overAdmitted += this.beyondMax(read, confirmed, sentMs)
    if (!this.isOursAlone(read, confirmed)) this.#state = this.withUnreported(read, confirmed, now)
    this.#read = read
    this.readMs = sentMs
  }

  /**
   * Merges the answer to another call that was running when this counter became known, and that
   * took `granted`. Of several such answers the highest count is the newest; a state read by a
   * round is newer than all.
   *
   * While a report is running, the answer may be from before or after it. So of the increase in the
   * store's count, what is being reported is left out, but never what the call took.
   */
  mergeAnswer(state: unknown, granted: number, sentMs: number, now: number): void {
    if (sentMs < this.readMs) return
    const { limit } = this.debtLimit
    const left = (compiled: unknown) => algorithmOf(limit).peek(compiled, limit, 0, now).remaining
    const more = left(this.#read) - left(state)
    if (more <= 0) return
    this.#read = state
    if (this.reports.length === 0) {
      this.#state = this.withUnreported(state, [], now)
      return
    }
    const reported = this.reports.reduce((sum, { amount }) => sum + amount, 0)
    const amount = Math.max(granted, more - reported)
    if (amount > 0) this.#state = charged(this.#state, this.debtLimit, { amount, at: now }, now)
  }

  /** How many of the reported units exceeded the limit, by the count after them. */
  private beyondMax(state: unknown, confirmed: readonly UsageReport[], sentMs: number): number {
    const { limit } = this.debtLimit
    if (state === undefined) return 0
    if (algorithmOf(limit).family !== 'bucket') return beyondMaxOfWindows(state, confirmed, limit)
    const amount = confirmed.reduce((sum, report) => sum + report.amount, 0)
    // What it regained while they were spent was available to them too.
    const regained = ((sentMs - this.readMs) * limit.max) / limit.windowMs
    const excess = (state as Bucket).used - limit.capacity - Math.ceil(regained)
    return Math.min(amount, Math.max(0, excess))
  }

  private add(amount: number, at: number): void {
    if (amount > 0) this.stats.unreported += this.#unreported.add(amount, at)
  }

  private isSameWindow(a: number, b: number): boolean {
    const { windows } = this.#unreported
    return windowNumberOf(windows, a) === windowNumberOf(windows, b)
  }

  /** The state that was read, plus usage that the store does not know yet. */
  private withUnreported(read: unknown, confirmed: readonly UsageReport[], now: number): unknown {
    const { limit } = this.debtLimit
    let state = capPreviousWindow(read, limit, now)
    for (const { returned, at } of confirmed) {
      if (returned > 0) state = algorithmOf(limit).give(state, limit, returned, now, at) ?? state
    }
    for (const usage of this.#unreported.usages) state = charged(state, this.debtLimit, usage, now)
    return state
  }

  /** Whether only reports of this node changed the bucket since it was last read. */
  private isOursAlone(read: unknown, confirmed: readonly UsageReport[]): boolean {
    if (algorithmOf(this.debtLimit.limit).family !== 'bucket') return false
    if (read === undefined) return this.#read === undefined && confirmed.length === 0
    const { at, used, part } = read as Bucket
    let state = this.#read
    for (const report of confirmed) state = charged(state, this.debtLimit, report, at)
    if (state === undefined) return false
    const alone = state as Bucket
    return alone.at === at && alone.used === used && alone.part === part
  }
}

function hasSameWindows(a: Limit, b: Limit): boolean {
  return (
    a.format === b.format &&
    a.windowUs === b.windowUs &&
    a.calendar?.unit === b.calendar?.unit &&
    a.calendar?.zone === b.calendar?.zone
  )
}

/** The time to charge usage at; a bucket with debt takes longer to regain it. */
export function chargeAt({ at }: Usage, { debtUs }: DebtLimit): number {
  return at + debtUs
}

function charged(state: unknown, debtLimit: DebtLimit, usage: Usage, now: number): unknown {
  const { limit, debt } = debtLimit
  const at = chargeAt(usage, debtLimit)
  return algorithmOf(limit).charge(state, limit, usage.amount, now, at, debt) ?? state
}

/**
 * Caps the previous window of a sliding counter at max: over-admission there is not carried
 * forward. The count of the present window is exact.
 */
function capPreviousWindow(state: unknown, limit: Limit, now: number): unknown {
  if (algorithmOf(limit).windowsCounted !== 2 || state === undefined) return state
  const { start, curr, prev } = state as SlidingCounter
  const { max } = limit
  const isOver = start + limit.windowUs <= now
  if (prev <= max && (!isOver || curr <= max)) return state
  return { start, curr: isOver ? Math.min(curr, max) : curr, prev: Math.min(prev, max) }
}

function beyondMaxOfWindows(
  state: unknown,
  confirmed: readonly UsageReport[],
  limit: Limit,
): number {
  return confirmed.reduce((sum, { amount, at }) => {
    const count = countAt(state as FixedWindow | SlidingCounter, limit, at)
    return sum + Math.min(amount, Math.max(0, count - limit.max))
  }, 0)
}

/** The count of a window state for the window that contains `at`. */
function countAt(state: FixedWindow | SlidingCounter, limit: Limit, at: number): number {
  const age = windowNumberOf(limit, state.start) - windowNumberOf(limit, at)
  if ('count' in state) return age === 0 ? state.count : 0
  return age === 0 ? state.curr : age === 1 ? state.prev : 0
}

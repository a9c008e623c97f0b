/**
 * The rounds in which counts are merged: for all counters of one interval that were asked for
 * again, what was spent here is charged to the store, and what all nodes spent is read. Charges
 * leave before the read, so that on one connection it sees them.
 */
import type { Limit } from '@sluice/core'
import { PeriodicTask } from '../../periodic.js'
import type { Answer, Groups } from '../../store.js'
import { mayHaveRun } from '../../deferred-charges.js'
import type { DebtLimits } from './debt-limit.js'
import type { CoordinationDeps } from '../node-decider.js'
import { chargeAt, type LocalCounter, type UsageReport } from './local-counter.js'

/** Counters of one read; with their charges they are about a batch of the store. */
const CHUNK = 64
/** Chunks under way at once: while one is decided, the next is there already. */
const CHUNKS_AT_ONCE = 4
/**
 * What one node spends is known to all others within an interval and two round trips: up to one
 * round passes until it reports, and up to one until they read.
 */
const ROUNDS_PER_INTERVAL = 2
/** Nobody asked for so long and for so many intervals: it is dropped. */
const IDLE_MS = 200
const IDLE_INTERVALS = 2
/**
 * A read keeps no call waiting, so it may take as long as a charge. It must: what has less time
 * goes to the store first, and would not see what was charged with it.
 */
const READ_MS = 1000

export interface SyncDeps extends CoordinationDeps {
  readonly debts: DebtLimits
  /** Called for a counter that nobody asks for any more. */
  readonly drop: (counter: LocalCounter) => void
}

export class LocalSync {
  readonly counters = new Set<LocalCounter>()
  readonly idleMs: number
  readonly #deps: SyncDeps
  readonly #task: PeriodicTask
  #running: Promise<void> = Promise.resolve()

  constructor(everyMs: number, deps: SyncDeps) {
    this.#deps = deps
    this.idleMs = Math.max(IDLE_MS, IDLE_INTERVALS * everyMs)
    this.#task = new PeriodicTask(everyMs / ROUNDS_PER_INTERVAL, () => this.run(), deps.scheduler)
  }

  add(counter: LocalCounter): void {
    this.counters.add(counter)
    this.#task.start('later')
  }

  delete(counter: LocalCounter): void {
    this.counters.delete(counter)
    if (this.counters.size === 0) this.#task.stop()
  }

  /** Reports everything once more, and counts nothing from now on. */
  async reportAll(): Promise<void> {
    this.#task.stop()
    const all = [...this.counters]
    this.counters.clear()
    await reportOnce(all, this.#deps)
  }

  /** The same after the round that is under way, so that what did not run of it is among it. */
  async close(): Promise<void> {
    this.#task.stop()
    await this.#running
    await this.reportAll()
  }

  private run(): Promise<void> {
    this.#running = this.round()
    return this.#running
  }

  private async round(): Promise<void> {
    const due: LocalCounter[] = []
    const nowMs = this.#deps.monotonicMs()
    for (const counter of this.counters) {
      const isIdle = nowMs - counter.usedMs >= this.idleMs
      if (isIdle && !counter.isOpen) this.#deps.drop(counter)
      else if (counter.wasUsedAgain) due.push(counter)
      else counter.isUnread = true
    }
    await inChunks(due, (chunk) => this.exchange(chunk.filter(({ isKnown }) => isKnown)))
  }

  private async exchange(chunk: readonly LocalCounter[]): Promise<void> {
    if (chunk.length === 0) return
    const sentMs = this.#deps.monotonicMs()
    const nodes = nodesOf(this.#deps)
    for (const counter of chunk) counter.debtLimit = this.#deps.debts.get(counter.compiled, nodes)
    const charges = chunk.map((counter) => reportUnreported(counter, this.#deps))
    const answers = await this.read(chunk)
    for (const [i, counter] of chunk.entries()) {
      const reports = (await charges[i]) ?? []
      settleReports(counter, reports, this.#deps)
      const answer = answers[0]?.[i]
      if (!counter.isKnown || typeof answer !== 'object' || !('state' in answer)) continue
      const now = this.#deps.placeInWindow(counter.debtLimit.limit)
      if (isOfAnotherClock(answer.at, now, counter.compiled.limit)) {
        this.#deps.drop(counter)
        void reportOnce([counter], this.#deps)
      } else counter.mergeRead(answer.state, reports, sentMs, now)
    }
  }

  /** An amount of 0 takes nothing, and is answered with the state. */
  private async read(chunk: readonly LocalCounter[]): Promise<Groups<Answer>> {
    const { store, deadlineMs, onStoreAnswer } = this.#deps
    const takes = chunk.map(({ key, debtLimit }) => ({ key, limit: debtLimit.limit, amount: 0 }))
    const readDeadlineMs = Math.max(deadlineMs, READ_MS)
    try {
      const answers = await store.take([takes], { deadlineMs: readDeadlineMs, states: true })
      if (answers[0]?.some((answer) => typeof answer === 'object') === true) onStoreAnswer()
      return answers
    } catch {
      return []
    }
  }
}

/**
 * Whether a store's time is so far from the one that this node counts by that they mean different
 * windows: the clocks of a Cluster may be apart, and then only the store can say what is left.
 */
export function isOfAnotherClock(at: number, now: number, { windowUs }: Limit): boolean {
  return Math.abs(at - now) >= windowUs
}

/** As many as are known to live, and at least this one. */
export function nodesOf({ fleetSize }: CoordinationDeps): number {
  return Math.max(1, Math.floor(fleetSize()))
}

/** Reports what counters spent that are not known here any more: told or not, never again. */
export async function reportOnce(
  counters: readonly LocalCounter[],
  deps: CoordinationDeps,
): Promise<void> {
  for (const counter of counters) counter.isKnown = false
  await inChunks(counters, async (chunk) => {
    const underWay = chunk.map((counter) => reportUnreported(counter, deps))
    for (const [i, counter] of chunk.entries()) {
      settleReports(counter, (await underWay[i]) ?? [], deps)
    }
  })
}

/** Charges what was spent since the last cut, each window by itself. */
async function reportUnreported(
  counter: LocalCounter,
  deps: CoordinationDeps,
): Promise<readonly UsageReport[]> {
  const reports = counter.cutReports(deps.placeInWindow(counter.debtLimit.limit))
  await Promise.all(reports.map((report) => sendReport(counter, report, deps)))
  return reports
}

async function sendReport(
  { key, debtLimit }: LocalCounter,
  report: UsageReport,
  { store }: CoordinationDeps,
): Promise<void> {
  const { limit, debt } = debtLimit
  const { amount } = report
  try {
    await store.charge({ key, limit, amount, at: chargeAt(report, debtLimit), debt })
    report.fate = 'confirmed'
  } catch (error) {
    report.fate = mayHaveRun(error) ? 'unknown' : 'not-run'
  }
}

/** What was put back while it was reported is given back, if it was. */
function settleReports(
  counter: LocalCounter,
  reports: readonly UsageReport[],
  deps: CoordinationDeps,
): void {
  for (const report of reports) {
    counter.settle(report)
    if (report.fate !== 'confirmed' || report.returned === 0 || counter.isForgotten) continue
    void giveBack(counter, report.returned, report.at, deps)
  }
}

/** Tried once. What is lost stays charged until it decays: early refusals, never too much. */
export async function giveBack(
  { key, debtLimit }: LocalCounter,
  amount: number,
  at: number,
  { store, invalidate }: CoordinationDeps,
): Promise<void> {
  invalidate(key)
  await store.give({ key, limit: debtLimit.limit, amount, at }).catch(() => {})
  invalidate(key)
}

/** All of them, so many at once. */
async function inChunks<Item>(
  items: readonly Item[],
  run: (chunk: readonly Item[]) => Promise<void>,
): Promise<void> {
  let next = 0
  const work = async () => {
    while (next < items.length) {
      const from = next
      next += CHUNK
      await run(items.slice(from, next))
    }
  }
  await Promise.all(Array.from({ length: CHUNKS_AT_ONCE }, work))
}

/**
 * Merges counts in rounds: for all active counters of one interval, local usage is charged to the
 * store and the usage of all nodes is read. Charges are sent before the read, so that on one
 * connection the read includes them.
 */
import type { Limit } from '@sluice/core'
import { PeriodicTask } from '../../periodic.js'
import type { Answer, Groups } from '../../store.js'
import { mayHaveRun } from '../../deferred-charges.js'
import type { DebtLimits } from './debt-limit.js'
import type { CoordinationDeps } from '../node-decider.js'
import { chargeAt, type LocalCounter, type UsageReport } from './local-counter.js'

/** Counters per read; with their charges they are about one batch of the store. */
const CHUNK = 64
/** Concurrent chunks: while the store runs one, the next is already there. */
const CHUNKS_AT_ONCE = 4
/**
 * Usage of one node is known to all others within an interval and two round trips: up to one round
 * until it is reported, and up to one until it is read.
 */
const ROUNDS_PER_INTERVAL = 2
/** A counter idle for this long, and for this many intervals, is dropped. */
const IDLE_MS = 200
const IDLE_INTERVALS = 2
/**
 * A read keeps no call waiting, so it may take as long as a charge. It must: requests with a
 * shorter deadline are sent first, so the read would miss the charges sent with it.
 */
const READ_MS = 1000

export interface SyncDeps extends CoordinationDeps {
  readonly debts: DebtLimits
  /** Called for a counter that is idle. */
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

  /** Reports everything once more and stops. */
  async reportAll(): Promise<void> {
    this.#task.stop()
    const all = [...this.counters]
    this.counters.clear()
    await reportOnce(all, this.#deps)
  }

  /** The same after the running round, including what that could not report. */
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

  /** Reads states by takes of amount 0, which change nothing. */
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
 * Whether the store's time is so far from this node's estimate that they mean different windows:
 * clocks of a Cluster may differ, and then only the store can decide.
 */
export function isOfAnotherClock(at: number, now: number, { windowUs }: Limit): boolean {
  return Math.abs(at - now) >= windowUs
}

/** The fleet size, at least 1. */
export function nodesOf({ fleetSize }: CoordinationDeps): number {
  return Math.max(1, Math.floor(fleetSize()))
}

/** Reports the usage of dropped counters once, whatever the result. */
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

/** Charges usage since the last report, each window by itself. */
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

/** Settles reports, and returns to the store what was put back while they were running. */
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

/**
 * Tried once. Units that are lost stay charged until they expire: early refusals, never too many
 * admissions.
 */
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

/** Runs all items in chunks, with bounded concurrency. */
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

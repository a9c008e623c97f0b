/**
 * The rounds in which counts are merged: for all counters of one interval that were asked for
 * again, what was spent here is charged to the store, and what all nodes spent is read. Charges
 * leave before the read, so that on one connection it sees them.
 */
import type { Limit } from '@sluice/core'
import { Rounds } from '../rounds.js'
import type { Answer, Groups } from '../store.js'
import { mayHaveRun } from '../reports.js'
import type { DebtLimits } from './debt-limit.js'
import type { NodeParts } from './here.js'
import { chargeAt, type LocalCounter, type Report } from './local-counter.js'

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

export interface SyncParts extends NodeParts {
  readonly debts: DebtLimits
  /** Called for a counter that nobody asks for any more. */
  readonly drop: (counter: LocalCounter) => void
}

export class LocalSync {
  readonly counters = new Set<LocalCounter>()
  readonly idleMs: number
  readonly #parts: SyncParts
  readonly #rounds: Rounds
  #running: Promise<void> = Promise.resolve()

  constructor(everyMs: number, parts: SyncParts) {
    this.#parts = parts
    this.idleMs = Math.max(IDLE_MS, IDLE_INTERVALS * everyMs)
    this.#rounds = new Rounds(everyMs / ROUNDS_PER_INTERVAL, () => this.run(), parts.scheduler)
  }

  add(counter: LocalCounter): void {
    this.counters.add(counter)
    this.#rounds.start('later')
  }

  delete(counter: LocalCounter): void {
    this.counters.delete(counter)
    if (this.counters.size === 0) this.#rounds.stop()
  }

  /** Reports everything once more, and counts nothing from now on. */
  async leave(): Promise<void> {
    this.#rounds.stop()
    const all = [...this.counters]
    this.counters.clear()
    await reportOnce(all, this.#parts)
  }

  /** The same after the round that is under way, so that what did not run of it is among it. */
  async close(): Promise<void> {
    this.#rounds.stop()
    await this.#running
    await this.leave()
  }

  private run(): Promise<void> {
    this.#running = this.round()
    return this.#running
  }

  private async round(): Promise<void> {
    const due: LocalCounter[] = []
    const nowMs = this.#parts.monotonicMs()
    for (const counter of this.counters) {
      const isIdle = nowMs - counter.askedMs >= this.idleMs
      if (isIdle && !counter.isOpen) this.#parts.drop(counter)
      else if (counter.wasAsked) due.push(counter)
      else counter.isUnread = true
    }
    await inChunks(due, (chunk) => this.exchange(chunk.filter(({ isKnown }) => isKnown)))
  }

  private async exchange(chunk: readonly LocalCounter[]): Promise<void> {
    if (chunk.length === 0) return
    const sentMs = this.#parts.monotonicMs()
    const nodes = nodesOf(this.#parts)
    for (const counter of chunk) counter.owing = this.#parts.debts.of(counter.of, nodes)
    const charges = chunk.map((counter) => tellPending(counter, this.#parts))
    const answers = await this.read(chunk)
    for (const [i, counter] of chunk.entries()) {
      const reports = (await charges[i]) ?? []
      finish(counter, reports, this.#parts)
      const answer = answers[0]?.[i]
      if (!counter.isKnown || typeof answer !== 'object' || !('state' in answer)) continue
      const now = this.#parts.placeAt(counter.owing.limit)
      if (isOfAnotherClock(answer.at, now, counter.of.limit)) {
        this.#parts.drop(counter)
        void reportOnce([counter], this.#parts)
      } else counter.takeIn(answer.state, reports, sentMs, now)
    }
  }

  /** An amount of 0 takes nothing, and is answered with the state. */
  private async read(chunk: readonly LocalCounter[]): Promise<Groups<Answer>> {
    const { store, deadlineMs, answering } = this.#parts
    const takes = chunk.map(({ key, owing }) => ({ key, limit: owing.limit, amount: 0 }))
    const patienceMs = Math.max(deadlineMs, READ_MS)
    try {
      const answers = await store.take([takes], { deadlineMs: patienceMs, states: true })
      if (answers[0]?.some((answer) => typeof answer === 'object') === true) answering()
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
export function nodesOf({ fleetSize }: NodeParts): number {
  return Math.max(1, Math.floor(fleetSize()))
}

/** Reports what counters spent that are not known here any more: told or not, never again. */
export async function reportOnce(
  counters: readonly LocalCounter[],
  parts: NodeParts,
): Promise<void> {
  for (const counter of counters) counter.isKnown = false
  await inChunks(counters, async (chunk) => {
    const underWay = chunk.map((counter) => tellPending(counter, parts))
    for (const [i, counter] of chunk.entries()) {
      finish(counter, (await underWay[i]) ?? [], parts)
    }
  })
}

/** Charges what was spent since the last cut, each window by itself. */
async function tellPending(counter: LocalCounter, parts: NodeParts): Promise<readonly Report[]> {
  const reports = counter.cut(parts.placeAt(counter.owing.limit))
  await Promise.all(reports.map((report) => tell(counter, report, parts)))
  return reports
}

async function tell(
  { key, owing }: LocalCounter,
  report: Report,
  { store }: NodeParts,
): Promise<void> {
  const { limit, debt } = owing
  const { amount } = report
  try {
    await store.charge({ key, limit, amount, at: chargeAt(report, owing), debt })
    report.fate = 'told'
  } catch (error) {
    report.fate = mayHaveRun(error) ? 'unknown' : 'not-run'
  }
}

/** What was put back while it was reported is given back, if it was. */
function finish(counter: LocalCounter, reports: readonly Report[], parts: NodeParts): void {
  for (const report of reports) {
    counter.settle(report)
    if (report.fate !== 'told' || report.back === 0 || counter.isForgotten) continue
    void giveBack(counter, report.back, report.at, parts)
  }
}

/** Tried once. What is lost stays charged until it decays: early refusals, never too much. */
export async function giveBack(
  { key, owing }: LocalCounter,
  amount: number,
  at: number,
  { store, gaveBack }: NodeParts,
): Promise<void> {
  gaveBack(key)
  await store.give({ key, limit: owing.limit, amount, at }).catch(() => {})
  gaveBack(key)
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

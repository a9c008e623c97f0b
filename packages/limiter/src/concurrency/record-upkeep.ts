/**
 * Renews, repairs and removes the records of this node's places in the store. A node with very many
 * callers sends these requests in turn, a bounded number at once.
 */
import type { CounterKey, Limit } from '@sluice/core'
import { mayHaveRun } from '../deferred-charges.js'
import type { Scheduler } from '../periodic.js'
import type { Charge, Store } from '../store.js'
import type { PlaceRecord } from './place-record.js'

export interface RecordUpkeepDeps {
  readonly store: Pick<Store, 'charge'>
  readonly scheduler: Scheduler
  /** Milliseconds of a clock that never steps. */
  readonly monotonicMs: () => number
}

/**
 * How long after a request went unanswered its record may be overwritten. The store runs nothing
 * after the request's deadline by its own clock, which this node knows to some milliseconds.
 */
export const GRACE_MS = 250
/** Renewals and repairs under way at once. */
const REQUESTS_AT_ONCE = 256

/** A record whose places other nodes may give back. */
export interface ExtendedRecord {
  readonly key: CounterKey
  readonly limit: Limit
  renewedMs: number
}

export class RecordUpkeep {
  readonly #deps: RecordUpkeepDeps
  readonly #waiting: (() => Promise<void>)[] = []
  #underWay = 0
  #repairs = 0

  constructor(deps: RecordUpkeepDeps) {
    this.#deps = deps
  }

  /** Whether a record is being repaired. */
  get isRepairing(): boolean {
    return this.#repairs > 0
  }

  /** Renews the lease of a record, which then has at least the places that are held. */
  renew(record: PlaceRecord, holder: number): void {
    record.isRenewing = true
    void this.inTurn(async () => {
      const { key, limit, held } = record
      const sentMs = this.#deps.monotonicMs()
      record.begin(sentMs)
      const isDone = await this.charge({ key, limit, amount: held, at: holder, debt: 0 })
      if (isDone === true) record.renewedMs = sentMs
      record.isRenewing = false
      record.end()
    })
  }

  /** Renews the lease of a record without a change of its places, whatever they are. */
  extend(record: ExtendedRecord, holder: number): void {
    void this.inTurn(async () => {
      const { key, limit } = record
      const sentMs = this.#deps.monotonicMs()
      const isDone = await this.charge({ key, limit, amount: 0, at: holder, debt: 0 })
      if (isDone === true) record.renewedMs = sentMs
    })
  }

  /** Sets the places of a record to those that are held; no take is sent until that is done. */
  repair(record: PlaceRecord, holder: number): void {
    this.#repairs += 1
    record.repair = this.inTurn(async () => {
      await this.overwrite(record, holder)
      record.repair = undefined
      this.#repairs -= 1
    })
  }

  /** Removes a record; resolves when that is done or lost. */
  remove({ key, limit }: PlaceRecord, holder: number): Promise<void> {
    return this.inTurn(() => this.charge({ key, limit, amount: 0, at: holder, debt: 1 }))
  }

  private async overwrite(record: PlaceRecord, holder: number): Promise<void> {
    const { monotonicMs } = this.#deps
    for (;;) {
      await this.untilNothingRuns(record)
      const { key, limit, held } = record
      const sentMs = monotonicMs()
      record.touchedMs = sentMs
      const isDone = await this.charge({ key, limit, amount: held, at: holder, debt: 1 })
      if (isDone !== false) record.overwrites += 1
      if (isDone !== true) {
        record.doubt(monotonicMs())
        // Takes must not be sent while the charge may still run.
        if (isDone === 'unknown') await this.untilNothingRuns(record)
        return
      }
      record.renewedMs = sentMs
      // Calls that ended meanwhile gave back nothing.
      if (record.held !== held) continue
      record.doubtedMs = undefined
      return
    }
  }

  /** Resolves when no request may change a record any more, answered or not. */
  private async untilNothingRuns(record: PlaceRecord): Promise<void> {
    const { scheduler, monotonicMs } = this.#deps
    await record.settled()
    const graceMs = (record.doubtedMs ?? -GRACE_MS) + GRACE_MS - monotonicMs()
    if (graceMs > 0) await new Promise<void>((resolve) => void scheduler.after(graceMs, resolve))
  }

  /** Returns whether a charge was done; never rejects. */
  private charge(charge: Charge): Promise<boolean | 'unknown'> {
    return this.#deps.store.charge(charge).then(
      () => true,
      (error) => (mayHaveRun(error) ? 'unknown' : false),
    )
  }

  /** Runs a request now, or when others have ended; resolves when it has. */
  private inTurn(run: () => Promise<unknown>): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(async () => {
        this.#underWay += 1
        await run()
        this.#underWay -= 1
        resolve()
        this.runNext()
      })
      this.runNext()
    })
  }

  private runNext(): void {
    while (this.#underWay < REQUESTS_AT_ONCE) {
      const next = this.#waiting.shift()
      if (next === undefined) return
      void next()
    }
  }
}

/**
 * The places that this node holds in the store: one record for each counter, whatever the number of
 * its calls, under a number that no other node has.
 *
 * A record lives for one lease. It is renewed while it is in use and nothing else writes it, so
 * that calls may take longer than the lease, and the places of a node that dies are free after it.
 *
 * Where the store does not say what became of a request, it may count other places than are held.
 * Such a record is repaired: once nothing is under way, it is overwritten with the places that are
 * held, and no take of the counter is sent meanwhile. A place that the store grants too late for
 * its call is given back at once.
 */
import { type CounterKey, isConcurrency, type Limit, type Take } from '@sluice/core'
import { CounterMap } from '../coordination/local/counter-map.js'
import { PeriodicTask } from '../periodic.js'
import { randomHolder } from '../random.js'
import { isMisuse } from '../store-answer.js'
import {
  type Answer,
  DEFAULT_DEADLINE_MS,
  type Give,
  type Groups,
  type Store,
  type TakeOptions,
} from '../store.js'
import { PlaceRecord } from './place-record.js'
import {
  type ExtendedRecord,
  GRACE_MS,
  RecordUpkeep,
  type RecordUpkeepDeps,
} from './record-upkeep.js'

export interface PlacesDeps extends RecordUpkeepDeps {
  readonly store: Store
}

/** Records are looked through six times in a lease, and renewed when a third of it is over. */
const SWEEPS_PER_LEASE = 6
const RENEWED_AFTER = 1 / 3
/**
 * How long reservations are made under one number. If the store does not confirm a settle, it
 * may count a place that nobody has, for as long as other reservations keep the record alive.
 */
const RESERVATION_HOLDER_MS = 600_000

/** A take of places that was sent. */
interface SentTake {
  readonly record: PlaceRecord
  readonly group: number
  readonly index: number
  readonly overwrites: number
}

/** A counter whose record of reservations is kept alive. */
interface KeptRecord extends ExtendedRecord {
  untilMs: number
  uses: number
}

/** The counters of one length of lease, and the task that renews them. */
interface LeaseGroup {
  readonly records: CounterMap<PlaceRecord>
  /** By the number that holds the places. */
  readonly kept: Map<number, CounterMap<KeptRecord>>
  readonly task: PeriodicTask
}

export class Places {
  readonly #deps: PlacesDeps
  readonly #upkeep: RecordUpkeep
  readonly #records = new CounterMap<PlaceRecord>()
  /** By the length of the lease in milliseconds. */
  readonly #leases = new Map<number, LeaseGroup>()
  #holder: number | undefined
  #reservations: { readonly holder: number; readonly sinceMs: number } | undefined
  #isClosed = false

  constructor(deps: PlacesDeps) {
    this.#deps = deps
    this.#upkeep = new RecordUpkeep(deps)
    deps.store.remote?.onPlacesReturned?.((give, isConfirmed) => this.onReturned(give, isConfirmed))
  }

  /** The number of this node among those that hold places; random, made when it is first used. */
  get holder(): number {
    this.#holder ??= randomHolder()
    return this.#holder
  }

  /**
   * Another number of this node, for places that are given back by whoever settles them, on any
   * node. This node only keeps their records alive: see `keep`. It changes from time to time.
   */
  get reservationHolder(): number {
    const nowMs = this.#deps.monotonicMs()
    const known = this.#reservations
    if (known !== undefined && nowMs - known.sinceMs < RESERVATION_HOLDER_MS) return known.holder
    const holder = randomHolder()
    this.#reservations = { holder, sinceMs: nowMs }
    return holder
  }

  /** The number under which a call takes places. */
  holderOf(reserves = false): number {
    return reserves ? this.reservationHolder : this.holder
  }

  /** Whether `send` follows what becomes of a take: it takes places under `holder`. */
  follows({ limit, holder }: Take): boolean {
    return isConcurrency(limit) && holder === this.#holder
  }

  /**
   * Sends a call to the store, and follows what becomes of the places that it takes under `holder`.
   * What is granted in time is held until it is given back with `give`; what is granted too late is
   * given back here.
   */
  send(groups: Groups<Take>, options: TakeOptions): Promise<Groups<Answer>> {
    if (!hasPlaces(groups)) return this.#deps.store.take(groups, options)
    const sent = this.sentTakes(groups)
    const isRepairing =
      this.#upkeep.isRepairing && sent.some(({ record }) => record.repair !== undefined)
    return isRepairing ? this.sendLater(groups, options, sent) : this.sendNow(groups, options, sent)
  }

  /** Records the places that a store in this process has granted. */
  record(groups: Groups<Take>, outcomes: Groups<Answer>): void {
    if (!hasPlaces(groups)) return
    const nowMs = this.#deps.monotonicMs()
    const sent = this.sentTakes(groups)
    for (const { record } of sent) record.begin(nowMs)
    this.onAnswer(sent, outcomes, nowMs)
  }

  /** Gives places back that the store granted. Never fails: what is lost is repaired later. */
  give(key: CounterKey, amount: number): void {
    const record = this.#records.get(key)
    if (record === undefined || this.#isClosed) return
    record.held = Math.max(0, record.held - amount)
    // The repair sets the places that are held when it ends.
    if (record.repair !== undefined) return
    // The renewal may run after the give, and raise the places again.
    if (record.isRenewing) record.doubt(this.#deps.monotonicMs())
    this.sendGive(record, amount)
  }

  /** Gives back places that a take was granted, under whatever number. */
  giveTaken(take: Take, amount: number): void {
    const { key, limit, holder: at } = take
    if (this.follows(take) || at === undefined) return this.give(key, amount)
    this.#deps.store.give({ key, limit, amount, at }).catch(() => {
      // The store may count them until no reservation keeps the record alive.
    })
  }

  /**
   * Keeps the record of `reservationHolder`, as it was for the take, alive in a counter until a
   * time of the clock that never steps, or until the returned function is called. The places
   * themselves are taken by a take and given back by a give or a negative take with `at: holder`,
   * on any node. If this node dies, they are free after the lease.
   */
  keep(key: CounterKey, limit: Limit, holder: number, untilMs: number): () => void {
    const { kept } = this.leaseOf(limit)
    const records = kept.get(holder) ?? new CounterMap<KeptRecord>()
    kept.set(holder, records)
    const known = records.get(key)
    const entry = known ?? { key, limit, untilMs, renewedMs: this.#deps.monotonicMs(), uses: 0 }
    if (known === undefined) records.add(entry)
    entry.untilMs = Math.max(entry.untilMs, untilMs)
    entry.uses += 1
    let isKept = true
    return () => {
      if (!isKept) return
      isKept = false
      entry.uses -= 1
      if (entry.uses === 0) records.delete(entry)
    }
  }

  /** Gives back everything that this node holds, as far as the store answers. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    for (const { task } of this.#leases.values()) task.stop()
    const records = [...this.#records]
    await Promise.all(records.map((record) => this.#upkeep.remove(record, this.holder)))
  }

  /** While a record is repaired, takes of its counter wait, at most for their deadline. */
  private async sendLater(
    groups: Groups<Take>,
    options: TakeOptions,
    sent: readonly SentTake[],
  ): Promise<Groups<Answer>> {
    const { scheduler, monotonicMs, store } = this.#deps
    const deadlineMs = options.deadlineMs ?? store.remote?.deadlineMs ?? DEFAULT_DEADLINE_MS
    const sinceMs = monotonicMs()
    const isRepaired = await new Promise<boolean>((resolve) => {
      const cancel = scheduler.after(deadlineMs, () => resolve(false))
      void Promise.all(sent.flatMap(({ record }) => record.repair ?? [])).then(() => {
        cancel()
        resolve(true)
      })
    })
    if (!isRepaired) return groups.map((takes) => takes.map(() => 'not-run'))
    const leftMs = Math.max(1, Math.ceil(deadlineMs - monotonicMs() + sinceMs))
    const { states, onLate } = options
    return this.send(groups, { deadlineMs: leftMs, states, onLate })
  }

  private sendNow(
    groups: Groups<Take>,
    { deadlineMs, states, onLate }: TakeOptions,
    sent: readonly SentTake[],
  ): Promise<Groups<Answer>> {
    const sentMs = this.#deps.monotonicMs()
    for (const { record } of sent) record.begin(sentMs)
    let answered: Groups<Answer> | undefined
    let late: Groups<Answer> | undefined
    const followed: TakeOptions = {
      deadlineMs,
      states,
      onLate: (answers) => {
        late = answers
        if (answered !== undefined) this.onLate(sent, answered, answers)
        onLate?.(answers)
      },
    }
    const finish = (answers: Groups<Answer>): Groups<Answer> => {
      answered = answers
      this.onAnswer(sent, answers, sentMs)
      if (late !== undefined) this.onLate(sent, answers, late)
      return answers
    }
    const fail = (error: unknown): never => {
      const silence = isMisuse(error) ? 'not-run' : 'unknown'
      finish(groups.map((takes) => takes.map(() => silence)))
      throw error
    }
    try {
      return this.#deps.store.take(groups, followed).then(finish, fail)
    } catch (error) {
      return fail(error)
    }
  }

  /** The takes under the number of this node; those of reservations are settled elsewhere. */
  private sentTakes(groups: Groups<Take>): readonly SentTake[] {
    return groups.flatMap((takes, group) =>
      takes.flatMap((take, index) => {
        if (take.amount === 0 || !this.follows(take)) return []
        const record = this.recordOf(take.key, take.limit)
        return [{ record, group, index, overwrites: record.overwrites }]
      }),
    )
  }

  private recordOf(key: CounterKey, limit: Limit): PlaceRecord {
    const known = this.#records.get(key)
    if (known === undefined) {
      const made = new PlaceRecord(key, limit, this.#deps.monotonicMs())
      this.#records.add(made)
      this.leaseOf(limit).records.add(made)
      return made
    }
    if (known.limit.windowUs !== limit.windowUs) {
      this.leaseOf(known.limit).records.delete(known)
      this.leaseOf(limit).records.add(known)
    }
    known.limit = limit
    return known
  }

  private leaseOf({ windowUs }: Limit): LeaseGroup {
    const leaseMs = windowUs / 1000
    const known = this.#leases.get(leaseMs)
    if (known !== undefined) return known
    const sweep = async () => this.sweep(leaseMs, made)
    const made: LeaseGroup = {
      records: new CounterMap(),
      kept: new Map(),
      task: new PeriodicTask(leaseMs / SWEEPS_PER_LEASE, sweep, this.#deps.scheduler),
    }
    this.#leases.set(leaseMs, made)
    if (!this.#isClosed) made.task.start('later')
    return made
  }

  /** Renews and repairs what needs it, and forgets what is over. */
  private sweep(leaseMs: number, lease: LeaseGroup): void {
    const nowMs = this.#deps.monotonicMs()
    for (const record of lease.records) {
      const { doubtedMs, held, renewedMs, repair, isRenewing } = record
      if (record.isOver(nowMs, GRACE_MS)) {
        this.#records.delete(record)
        lease.records.delete(record)
      } else if (repair !== undefined || isRenewing) continue
      else if (doubtedMs !== undefined) {
        if (nowMs - doubtedMs >= GRACE_MS) this.#upkeep.repair(record, this.holder)
      } else if (held > 0 && nowMs - renewedMs >= leaseMs * RENEWED_AFTER) {
        this.#upkeep.renew(record, this.holder)
      }
    }
    for (const [holder, records] of lease.kept) {
      for (const entry of records) {
        if (nowMs >= entry.untilMs) records.delete(entry)
        else if (nowMs - entry.renewedMs >= leaseMs * RENEWED_AFTER) {
          this.#upkeep.extend(entry, holder)
        }
      }
      if (records.size === 0) lease.kept.delete(holder)
    }
    if (lease.records.size > 0 || lease.kept.size > 0) return
    lease.task.stop()
    this.#leases.delete(leaseMs)
  }

  private onAnswer(sent: readonly SentTake[], answers: Groups<Answer>, sentMs: number): void {
    for (const { record, group, index } of sent) {
      const answer = answers[group]?.[index] ?? 'unknown'
      if (answer === 'unknown') record.doubt(this.#deps.monotonicMs())
      else if (typeof answer === 'object' && answer.granted > 0) {
        record.held += answer.granted
        record.renewedMs = Math.max(record.renewedMs, sentMs)
      }
      record.end()
    }
  }

  /** Gives back what was granted after the deadline: its call was decided without it. */
  private onLate(sent: readonly SentTake[], answered: Groups<Answer>, late: Groups<Answer>): void {
    for (const { record, group, index, overwrites } of sent) {
      const answer = late[group]?.[index]
      if (answered[group]?.[index] !== 'unknown' || typeof answer !== 'object') continue
      const isGone = record.overwrites !== overwrites || record.repair !== undefined
      if (answer.granted > 0 && !isGone && !this.#isClosed) this.sendGive(record, answer.granted)
    }
  }

  /** The store itself gives back places that this node has not been granted. */
  private onReturned({ key, at }: Give, isConfirmed: Promise<boolean>): void {
    const record = at === this.#holder ? this.#records.get(key) : undefined
    if (record === undefined) return
    record.begin(this.#deps.monotonicMs())
    void isConfirmed.then((isDone) => {
      if (!isDone) record.doubt(this.#deps.monotonicMs())
      record.end()
    })
  }

  private sendGive(record: PlaceRecord, amount: number): void {
    const { store, monotonicMs } = this.#deps
    const { key, limit } = record
    record.begin(monotonicMs())
    store.give({ key, limit, amount, at: this.holder }).then(
      () => record.end(),
      () => {
        record.doubt(monotonicMs())
        record.end()
      },
    )
  }
}

/** Most calls take no places, also where some rules count them. */
function hasPlaces(groups: Groups<Take>): boolean {
  for (const takes of groups) for (const { limit } of takes) if (isConcurrency(limit)) return true
  return false
}

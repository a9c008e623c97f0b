/**
 * Hits that are counted in this process because the store did not answer, and what becomes of them
 * when it does: what the store certainly did not count is charged to it, what it counted after all
 * is taken back here.
 */
import type { CounterKey, Outcome, Take } from '@sluice/core'
import { DeferredCharges } from '../deferred-charges.js'
import { type MemoryStore, memoryStore } from '../memory/memory-store.js'
import type { Answer, Give, Store } from '../store.js'
import { CancelledHits } from './cancelled-hits.js'
import type { DropInSettings } from './drop-in-options.js'

/** Hits that the store was asked to count, and what became of them. */
export class PendingHit {
  readonly takes: readonly Take[]
  /** Whether the names of the counters are those of the store, so that it can be charged. */
  readonly isNamed: boolean
  /** When they were counted here; undefined until then. */
  localAt: number | undefined = undefined
  /** A late answer that arrived before that. */
  late: Answer | undefined = undefined
  /** Whether it is known what the store did, so that a later answer changes nothing. */
  isSettled = false

  constructor(takes: readonly Take[], isNamed: boolean) {
    this.takes = takes
    this.isNamed = isNamed
  }
}

export class LocalHits {
  readonly store: MemoryStore
  readonly #deferred: DeferredCharges
  readonly #cancelled = new CancelledHits()
  readonly #time: () => number

  constructor(store: Store, { localCounters, clock }: DropInSettings) {
    const { remote } = store
    this.#time = () => {
      const time = remote?.time() ?? Number.NaN
      return Number.isFinite(time) ? Math.floor(time) : clock.now()
    }
    this.store = memoryStore({ maxCounters: localCounters, clock: { now: this.#time } })
    this.#deferred = new DeferredCharges(store, this.#time)
  }

  /** Counts pending hits here. `answer` is what the store says of them. */
  take(pending: PendingHit, answer: Answer = 'unknown'): Outcome | undefined {
    const [take] = pending.takes
    if (take === undefined) return undefined
    const outcome = this.store.sync.take([[take]])[0]?.[0]
    pending.localAt = outcome?.at
    if (outcome !== undefined && outcome.granted > 0) this.settle(pending, pending.late ?? answer)
    return outcome
  }

  peek(takes: readonly Take[]): readonly Outcome[] {
    return this.store.sync.peek([takes])[0] ?? []
  }

  /** Handles what became of pending hits after the deadline. */
  onLate(pending: PendingHit, answer: Answer | undefined): void {
    if (pending.localAt === undefined) pending.late = answer
    else if (answer !== undefined) this.settle(pending, answer)
  }

  /** Takes back hits that were counted here, before they are charged to the store. */
  subtract(give: Give): void {
    const { key, limit, amount } = give
    this.store.sync.give(give)
    const left = amount - this.#deferred.cancel(key, amount)
    const now = this.#time()
    if (left > 0) this.#cancelled.add(key, left, now, now + limit.windowUs)
  }

  forget(key: CounterKey): void {
    this.#deferred.forget(key)
  }

  onSilence(): void {
    this.#deferred.isStoreAnswering = false
  }

  onAnswer(): void {
    if (this.#deferred.isStoreAnswering) return
    this.#deferred.isStoreAnswering = true
    this.#deferred.flush()
  }

  close(): void {
    this.#deferred.close()
  }

  private settle(pending: PendingHit, answer: Answer): void {
    const { takes, isNamed, localAt } = pending
    const [take] = takes
    if (take === undefined || localAt === undefined || pending.isSettled) return
    pending.isSettled = answer !== 'unknown'
    const { key, limit, amount } = take
    if (answer === 'not-run') {
      const left = isNamed ? this.#cancelled.settle(key, amount, this.#time()) : 0
      if (left > 0) this.#deferred.add(key, limit, left, localAt)
    } else if (answer !== 'unknown' && answer.granted > 0) {
      this.store.sync.give({ key, limit, amount, at: localAt })
    }
  }
}

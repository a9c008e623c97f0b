/**
 * Decides when a store is read: immediately after the first notification, then at a bounded rate
 * however many follow, one read at a time, with retries while reads fail.
 */
import { randomInt } from 'node:crypto'
import { UnavailableError } from '../store/rule-store.js'
import type { Scheduler } from '../../lib/scheduler.js'

/** 10,000 changes in ten seconds cause forty reads. */
const READ_EVERY_MS = 250
const RETRY_MS = 250
const RETRY_MS_MAX = 5000
/** Spreads the retries of nodes that lost a store at the same moment. */
const JITTER = 0.2
const JITTER_STEPS = 1000

interface Waiter {
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

export class ReadLoop {
  readonly #read: () => Promise<void>
  readonly #scheduler: Scheduler
  /** Never rejects. */
  #reading: Promise<void> | undefined
  #waiters: Waiter[] = []
  #isRequested = false
  #failures = 0
  #retryMs = 0
  #startedMs = -Infinity
  #endedMs = -Infinity
  #cancel = () => {}
  #isClosed = false

  constructor(read: () => Promise<void>, scheduler: Scheduler) {
    this.#read = read
    this.#scheduler = scheduler
  }

  /** Called when the store may have changed. */
  requestRead(): void {
    this.#isRequested = true
    this.plan()
  }

  /** Settles with the first read that begins after this call; rejects if it fails. */
  readNow(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiters.push({ resolve, reject })
      this.plan()
    })
  }

  /** Settles when no read is in progress. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.plan()
    await this.#reading
  }

  private plan(): void {
    this.#cancel()
    this.#cancel = () => {}
    if (this.#isClosed) return this.refuse()
    const atMs = this.nextMs()
    if (this.#reading !== undefined || atMs === Infinity) return
    const inMs = atMs - this.#scheduler.nowMs()
    if (inMs > 0) this.#cancel = this.#scheduler.after(inMs, () => this.plan())
    else this.start()
  }

  private nextMs(): number {
    // A long read is followed by a pause as long, which leaves half of the time to decisions.
    const tookMs = this.#endedMs - this.#startedMs
    const restedMs = this.#endedMs + Math.min(tookMs || 0, READ_EVERY_MS)
    if (this.#waiters.length > 0) return restedMs
    const retryMs = this.#failures > 0 ? this.#endedMs + this.#retryMs : Infinity
    if (!this.#isRequested) return retryMs
    return Math.min(Math.max(this.#startedMs + READ_EVERY_MS, restedMs), retryMs)
  }

  private start(): void {
    const waiters = this.#waiters
    this.#waiters = []
    this.#isRequested = false
    this.#startedMs = this.#scheduler.nowMs()
    this.#reading = this.#read().then(
      () => {
        this.#failures = 0
        for (const { resolve } of waiters) resolve()
      },
      (error: unknown) => {
        const retryMs = Math.min(RETRY_MS * 2 ** this.#failures, RETRY_MS_MAX)
        this.#retryMs = retryMs * (1 + (JITTER * randomInt(JITTER_STEPS)) / JITTER_STEPS)
        this.#failures++
        for (const { reject } of waiters) reject(error)
      },
    )
    void this.#reading.then(() => {
      this.#reading = undefined
      this.#endedMs = this.#scheduler.nowMs()
      this.plan()
    })
  }

  private refuse(): void {
    const waiters = this.#waiters
    this.#waiters = []
    for (const { reject } of waiters) reject(new UnavailableError('this node is being stopped'))
  }
}

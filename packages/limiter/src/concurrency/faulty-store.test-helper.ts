/**
 * A remote store over counters that several nodes share, in time that a test moves. Requests arrive
 * late and out of order, run without an answer, are answered after their deadline, or are lost.
 */
import { type CounterKey, SluiceError, type Take } from '@sluice/core'
import { type MemoryStore, memoryStore } from '../memory/memory-store.js'
import type { FakeScheduler } from '../redis/connection/channel.test-helper.js'
import type { Dice } from '../dice.test-helper.js'
import type { Answer, Charge, Give, Groups, Store, TakeOptions } from '../store.js'

const TAKE_DEADLINE_MS = 50
const COMMAND_DEADLINE_MS = 1000
/** How long after the deadline a request may still run, as nodes know the store's clock roughly. */
const CLOCK_ERROR_MS = 100

/**
 * `lost`: never runs. `silent`: runs, and is never answered. `late`: answered after the deadline.
 */
export type Fate = 'done' | 'not-run' | 'lost' | 'silent' | 'late'

/** The counters of a fleet, and its time. */
export class SharedCounters {
  readonly scheduler: FakeScheduler
  readonly inner: MemoryStore

  constructor(scheduler: FakeScheduler) {
    this.scheduler = scheduler
    this.inner = memoryStore({ clock: { now: () => this.nowUs() } })
  }

  nowUs(): number {
    return 1_767_225_600_000_000 + Math.round(this.scheduler.nowMs * 1000)
  }
}

export class FaultyStore implements Store {
  readonly remote
  /** What becomes of the next request. */
  fateOf: () => Fate = () => 'done'
  readonly charges: Charge[] = []
  readonly gives: Give[] = []
  readonly #shared: SharedCounters
  readonly #dice: Dice

  constructor(shared: SharedCounters, dice: Dice) {
    this.#shared = shared
    this.#dice = dice
    this.remote = {
      time: () => shared.nowUs(),
      latestTime: () => shared.nowUs(),
      fleetSize: () => 1,
      secret: Promise.resolve(new Uint8Array(16)),
      denyCacheMs: 0,
      deadlineMs: TAKE_DEADLINE_MS,
      onAnswering: () => {},
    }
  }

  take(groups: Groups<Take>, options: TakeOptions = {}): Promise<Groups<Answer>> {
    const { scheduler, inner } = this.#shared
    const all = (answer: 'not-run' | 'unknown') => groups.map((takes) => takes.map(() => answer))
    const fate = this.fateOf()
    if (fate === 'not-run') return Promise.resolve(all('not-run'))
    const { deadlineMs = TAKE_DEADLINE_MS } = options
    return new Promise((resolve) => {
      const runsAt = this.#dice.below(deadlineMs + (fate === 'silent' ? CLOCK_ERROR_MS : 0))
      let outcomes: Groups<Answer> | undefined
      if (fate !== 'lost') {
        scheduler.after(runsAt, () => {
          outcomes = inner.sync.take(groups)
          if (fate === 'done') resolve(outcomes)
        })
      }
      if (fate === 'done') return
      scheduler.after(deadlineMs, () => resolve(all('unknown')))
      if (fate !== 'late') return
      const lateMs = deadlineMs + this.#dice.below(3000)
      scheduler.after(lateMs, () => options.onLate?.(outcomes ?? all('not-run')))
    })
  }

  async peek(groups: Groups<Take>) {
    return this.#shared.inner.sync.peek(groups)
  }

  give(give: Give): Promise<void> {
    this.gives.push(give)
    return this.command(() => this.#shared.inner.sync.give(give))
  }

  charge(charge: Charge): Promise<void> {
    this.charges.push(charge)
    return this.command(() => this.#shared.inner.sync.charge(charge))
  }

  async reset(key: CounterKey): Promise<void> {
    this.#shared.inner.sync.reset(key)
  }

  async close(): Promise<void> {}

  private command(run: () => void): Promise<void> {
    const { scheduler } = this.#shared
    const fate = this.fateOf()
    if (fate === 'not-run') return Promise.reject(failure('not-run'))
    return new Promise((resolve, reject) => {
      // Mostly soon; at times as late as its deadline allows.
      const lastMs = COMMAND_DEADLINE_MS + (fate === 'done' ? 0 : CLOCK_ERROR_MS)
      const runsAt = this.#dice.oneIn(5) ? lastMs - this.#dice.below(500) : this.#dice.below(20)
      if (fate !== 'lost') {
        scheduler.after(runsAt, () => {
          run()
          if (fate === 'done') resolve()
        })
      }
      if (fate !== 'done') {
        scheduler.after(COMMAND_DEADLINE_MS, () => reject(failure('unknown')))
      }
    })
  }
}

function failure(silence: 'not-run' | 'unknown'): Error {
  return Object.assign(new SluiceError('STORE_FAILED', 'The store did not answer'), { silence })
}

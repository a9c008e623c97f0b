/**
 * Measures what regions admit beyond merged limits, on a sample of the counters that are nearly
 * used up: their own store holds what all regions spent. A sliding counter is charged no more than
 * its max, so it shows nothing; a limit with `debt` may owe what a single region spent, such as a
 * cost that was known late, so it is not sampled.
 */
import {
  algorithmOf,
  type Bucket,
  type CounterKey,
  type FixedWindow,
  type Limit,
} from '@sluice/core'
import { PeriodicTask, type Scheduler } from '../periodic.js'
import type { Store } from '../store.js'

/** The counters of one look; more would cost the store more and show little more. */
const SAMPLES_MAX = 100
/** Later than what other regions spent has been told. */
const LOOK_EVERY_MS = 1000
/** A counter is sampled when this part of its limit is left, or less. */
const PART_LEFT = 0.1

interface Sample {
  readonly key: CounterKey
  readonly limit: Limit
}

export class OverageSampler {
  readonly #store: Store
  readonly #task: PeriodicTask
  #samples = new Map<string, Sample>()
  #share = 0

  constructor(store: Store, scheduler: Scheduler) {
    this.#store = store
    this.#task = new PeriodicTask(LOOK_EVERY_MS, () => this.look(), scheduler)
  }

  /**
   * The largest share beyond its limit that a counter of the last sample had; 0 for none, so 0.05
   * where a limit of 100 has admitted 105.
   */
  get share(): number {
    return this.#share
  }

  start(): void {
    this.#task.start('later')
  }

  stop(): void {
    this.#task.stop()
  }

  /** Called for each take that was granted. */
  onGranted(key: CounterKey, limit: Limit, remaining: number): void {
    if (remaining > limit.capacity * PART_LEFT || this.#samples.size >= SAMPLES_MAX) return
    if (limit.debt > 0 || algorithmOf(limit).windowsCounted === 2) return
    this.#samples.set(`${key.hi}.${key.lo}`, { key, limit })
  }

  private async look(): Promise<void> {
    const samples = [...this.#samples.values()]
    this.#samples = new Map()
    this.#share = 0
    if (samples.length === 0) return
    const takes = samples.map(({ key, limit }) => ({ key, limit, amount: 0 }))
    const [outcomes = []] = await this.#store.peek([takes], { states: true })
    for (const [i, { limit }] of samples.entries()) {
      this.#share = Math.max(this.#share, shareBeyond(outcomes[i]?.state, limit))
    }
  }
}

function shareBeyond(state: unknown, limit: Limit): number {
  if (typeof state !== 'object' || state === null || limit.capacity === 0) return 0
  const { family } = algorithmOf(limit)
  if (family === 'bucket') {
    return Math.max(0, (state as Bucket).used - limit.capacity) / limit.capacity
  }
  const { count = 0 } = state as Partial<FixedWindow>
  return Math.max(0, count - limit.max) / limit.max
}

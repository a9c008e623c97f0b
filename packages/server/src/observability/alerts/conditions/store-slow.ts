/** Finds Redis nodes that answer in time, but so late that little of the deadline is left. */
import { durationText } from '@sluice/core'
import type { BatchCounts } from '../../../counter-store/batch-latency.js'
import type { Finding } from '../alert.js'

/** If more than one batch in this many is slow, the p99 is above half the deadline. */
const BATCHES_PER_SLOW = 100
const SECONDS = 10
/** With fewer batches a p99 means nothing. */
const BATCHES_MIN = 100
/** Slow batches in fewer seconds are a single pause, of Redis or of this node. */
const SLOW_SECONDS_MIN = 3

/** The counts of `BatchLatency` since the start. */
export interface Latencies {
  readonly deadlineMs: number
  readonly slowMs: number
  stores(): ReadonlyMap<string, BatchCounts>
}

/** The last seconds of one Redis node. */
class RecentBatches {
  readonly #batches = new Float64Array(SECONDS)
  readonly #slow = new Float64Array(SECONDS)
  #second = 0
  #previous: BatchCounts = { batches: 0, slow: 0 }

  /** Takes the counts since the start, once a second. */
  record({ batches, slow }: BatchCounts): void {
    const place = this.#second % SECONDS
    this.#batches[place] = batches - this.#previous.batches
    this.#slow[place] = slow - this.#previous.slow
    this.#previous = { batches, slow }
    this.#second += 1
  }

  get batches(): number {
    return sum(this.#batches)
  }

  get slow(): number {
    return sum(this.#slow)
  }

  get isSlow(): boolean {
    const { batches, slow } = this
    if (batches < BATCHES_MIN || slow * BATCHES_PER_SLOW <= batches) return false
    return this.#slow.filter((each) => each > 0).length >= SLOW_SECONDS_MIN
  }
}

export class StoreSlowness {
  readonly #recent = new Map<string, RecentBatches>()

  /** Called once a second; `latencies` is undefined for the memory store. */
  evaluate(latencies: Latencies | undefined): readonly Finding[] {
    if (latencies === undefined) return []
    const found: Finding[] = []
    for (const [store, counts] of latencies.stores()) {
      const recent = this.#recent.get(store) ?? new RecentBatches()
      this.#recent.set(store, recent)
      recent.record(counts)
      if (recent.isSlow) found.push(describe(store, recent, latencies))
    }
    return found
  }
}

function describe(
  store: string,
  { batches, slow }: RecentBatches,
  { deadlineMs, slowMs }: Latencies,
): Finding {
  const text = (is: string) =>
    `The p99 latency of Redis at ${store} ${is} above ${durationText(slowMs)}, half the deadline: ` +
    `${slow} of ${batches} batches of ${SECONDS} s took longer.`
  const details = { store, deadlineMs, slowMs, batches, slow }
  return { subject: store, summary: text('is'), past: text('was'), details }
}

function sum(values: Float64Array): number {
  return values.reduce((total, value) => total + value, 0)
}

/** The decisions of one rule, or of one candidate, in the last ten minutes. */
import { candidateId } from '@sluice/core'
import { type HistogramReader, HistogramRing } from './latency.js'
import { LEFT_BOUNDS, RULE_BUCKETS } from './node-snapshot.js'
import { BucketRing, type Totals } from './series.js'

/** After a longer pause between refusals, `refusingSince` starts anew. */
const PAUSE_MS_MAX = 60_000

export class RuleSeries {
  readonly name: string
  readonly isCandidate: boolean
  readonly ring = new BucketRing(RULE_BUCKETS)
  /** Decisions at the last tick, to skip rules without new ones. */
  #decisions = 0
  #refused = 0
  #lastBucket = 0
  #refusingSinceMs = 0
  #lastRefusedMs = -Infinity

  constructor(name: string) {
    this.name = name
    this.isCandidate = name.endsWith(CANDIDATE_SUFFIX)
  }

  /** Returns whether there were decisions since the last call. */
  feed(bucket: number, totals: Totals & { readonly decisions: number }, nowMs: number): boolean {
    if (totals.decisions === this.#decisions) return false
    this.#decisions = totals.decisions
    this.#lastBucket = bucket
    this.ring.feed(bucket, totals)
    if (totals.refused !== this.#refused) {
      this.#refused = totals.refused
      if (nowMs - this.#lastRefusedMs > PAUSE_MS_MAX) this.#refusingSinceMs = nowMs
      this.#lastRefusedMs = nowMs
    }
    return true
  }

  refusingSinceMs(nowMs: number): number | null {
    return nowMs - this.#lastRefusedMs > PAUSE_MS_MAX ? null : this.#refusingSinceMs
  }

  /** Moves times back that lie in the future after the clock was set back. */
  rewind(bucket: number, nowMs: number): void {
    this.ring.rewind(bucket)
    this.#lastBucket = Math.min(this.#lastBucket, bucket)
    this.#lastRefusedMs = Math.min(this.#lastRefusedMs, nowMs)
    this.#refusingSinceMs = Math.min(this.#refusingSinceMs, nowMs)
  }

  /** Releases the memory of a rule without decisions in all kept buckets before `end`. */
  dropIdle(end: number): boolean {
    if (!this.ring.hasData || end - this.#lastBucket <= RULE_BUCKETS) return false
    this.ring.drop()
    return true
  }
}

const CANDIDATE_SUFFIX = candidateId('')

/** The remaining shares after the decisions of a rule in the last ten minutes. */
export class RemainingShares {
  readonly #ring: HistogramRing
  /** The place in `LEFT_BOUNDS` of each bucket of the histogram, which may have more bounds. */
  readonly #places: readonly number[]

  constructor(histogram: HistogramReader, minute: number) {
    this.#ring = new HistogramRing(histogram, MINUTES, minute)
    this.#places = [...histogram.bounds, Infinity].map((bound) => {
      const place = LEFT_BOUNDS.findIndex((each) => bound <= each)
      return place < 0 ? LEFT_BOUNDS.length - 1 : place
    })
  }

  feed(minute: number): void {
    this.#ring.feed(minute)
  }

  rewind(minute: number): void {
    this.#ring.rewind(minute)
  }

  /** Counts by `LEFT_BOUNDS`. */
  counts(minute: number): readonly number[] {
    const counts = LEFT_BOUNDS.map(() => 0)
    for (const [place, target] of this.#places.entries()) {
      counts[target] = (counts[target] ?? 0) + this.#ring.sum(place, minute)
    }
    return counts
  }
}

/** Complete minutes, in addition to the current one. */
const MINUTES = 10

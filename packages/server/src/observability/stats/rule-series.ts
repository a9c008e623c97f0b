/** What one rule, or the limits on trial of one, decided in the last ten minutes. */
import { candidateId } from '@sluice/core'
import { type HistogramReader, HistogramRing } from './latency.js'
import { LEFT_BOUNDS, RULE_BUCKETS } from './node-snapshot.js'
import { BucketRing, type Totals } from './series.js'

/** A rule that refused nobody for longer does not go on refusing. */
const PAUSE_MS_MAX = 60_000

export class RuleSeries {
  readonly name: string
  readonly isCandidate: boolean
  readonly ring = new BucketRing(RULE_BUCKETS)
  /** How many there were at the last look; the same again: nothing happened. */
  #decisions = 0
  #refused = 0
  #lastBucket = 0
  #refusingSinceMs = 0
  #lastRefusedMs = -Infinity

  constructor(name: string) {
    this.name = name
    this.isCandidate = name.endsWith(CANDIDATE_SUFFIX)
  }

  /** Whether something came since the last time. */
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

  /** The clock was put back, and nothing can have begun ahead of it. */
  rewind(bucket: number, nowMs: number): void {
    this.ring.rewind(bucket)
    this.#lastBucket = Math.min(this.#lastBucket, bucket)
    this.#lastRefusedMs = Math.min(this.#lastRefusedMs, nowMs)
    this.#refusingSinceMs = Math.min(this.#refusingSinceMs, nowMs)
  }

  /** Gives back what is kept of a rule that has decided nothing in all the steps up to `end`. */
  dropIdle(end: number): boolean {
    if (!this.ring.hasData || end - this.#lastBucket <= RULE_BUCKETS) return false
    this.ring.drop()
    return true
  }
}

const CANDIDATE_SUFFIX = candidateId('')

/** The shares that the decisions of a rule left, of the last ten minutes. */
export class RemainingShares {
  readonly #ring: HistogramRing
  /** By the places of what is measured, which may have more bounds. */
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

  /** By `LEFT_BOUNDS`. */
  counts(minute: number): readonly number[] {
    const counts = LEFT_BOUNDS.map(() => 0)
    for (const [place, target] of this.#places.entries()) {
      counts[target] = (counts[target] ?? 0) + this.#ring.sum(place, minute)
    }
    return counts
  }
}

/** Complete ones, beside the one under way. */
const MINUTES = 10

/** Decisions by time bucket, of one node and of several together. */
import type { SeriesSnapshot } from './node-snapshot.js'
import { BucketCounts } from './time-buckets.js'

/** Counts since the start, of a rule or of the node. */
export interface Totals {
  readonly allowed: number
  readonly refused: number
  readonly shadowRefused: number
  /** Also included in one of the others. */
  readonly degraded: number
}

const FIELDS = [
  'allowed',
  'refused',
  'shadowRefused',
  'degraded',
] as const satisfies (keyof Totals & keyof SeriesSnapshot)[]

const ZERO_TOTALS: Totals = { allowed: 0, refused: 0, shadowRefused: 0, degraded: 0 }

/** The buckets of one rule or of the node, allocated when there is something to count. */
export class BucketRing {
  readonly #capacity: number
  #counts: BucketCounts | undefined
  readonly #previous = { ...ZERO_TOTALS }

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  /** Whether any kept bucket may have counts. */
  get hasData(): boolean {
    return this.#counts !== undefined
  }

  /** Adds the growth of the totals since the last call to a bucket. */
  feed(bucket: number, totals: Totals): void {
    this.#counts ??= new BucketCounts({ capacity: this.#capacity, width: FIELDS.length, bucket })
    this.#counts.advanceTo(bucket)
    for (let i = 0; i < FIELDS.length; i++) {
      const field = FIELDS[i] ?? 'allowed'
      this.#counts.add(bucket, i, totals[field] - this.#previous[field])
      this.#previous[field] = totals[field]
    }
  }

  /** Forgets this bucket and later ones, after the clock was set back. */
  rewind(bucket: number): void {
    this.#counts?.rewind(bucket)
  }

  /** Releases the memory once all buckets are empty. */
  drop(): void {
    this.#counts = undefined
  }

  /** Returns the buckets from `from` to before `end`, as many as are kept. */
  series(from: number, end: number): SeriesSnapshot {
    const first = Math.max(from, end - this.#capacity)
    const read = (field: number): readonly number[] => {
      const counts: number[] = []
      for (let bucket = first; bucket < end; bucket++)
        counts.push(this.#counts?.at(bucket, field) ?? 0)
      return counts
    }
    return { end, allowed: read(0), refused: read(1), shadowRefused: read(2), degraded: read(3) }
  }

  /** Sums decisions and refusals of the kept buckets before `end`. */
  sum(end: number): { readonly decisions: number; readonly refused: number } {
    let decisions = 0
    let refused = 0
    const counts = this.#counts
    for (let bucket = end - this.#capacity; counts !== undefined && bucket < end; bucket++) {
      refused += counts.at(bucket, 1)
      decisions += counts.at(bucket, 0) + counts.at(bucket, 1) + counts.at(bucket, 2)
    }
    return { decisions, refused }
  }
}

/**
 * Sums the buckets of several nodes, from the first bucket of any node, at most `capacity`, to
 * before `end`. A bucket that a node lacks counts as 0.
 */
export function mergeSeries(
  all: readonly SeriesSnapshot[],
  { end, capacity }: { readonly end: number; readonly capacity: number },
): SeriesSnapshot {
  const begins = all.map((series) => series.end - series.allowed.length)
  const first = Math.max(end - capacity, Math.min(end, ...begins))
  const length = Math.max(0, end - first)
  const add = (field: (typeof FIELDS)[number]): readonly number[] => {
    const sums = Array.from({ length }, () => 0)
    for (const series of all) {
      const counts = series[field]
      const offset = series.end - counts.length - first
      for (let i = Math.max(0, -offset); i < counts.length && i + offset < length; i++) {
        sums[i + offset] = (sums[i + offset] ?? 0) + (counts[i] ?? 0)
      }
    }
    return sums
  }
  return {
    end,
    allowed: add('allowed'),
    refused: add('refused'),
    shadowRefused: add('shadowRefused'),
    degraded: add('degraded'),
  }
}

/** Nodes further behind do not delay the common end. */
const LAG_BUCKETS_MAX = 3

/**
 * The end up to which all nodes have published: the minimum, ignoring nodes far behind. It is at
 * most `own`, whatever nodes with fast clocks published.
 */
export function commonEnd(own: number, ends: readonly number[]): number {
  return Math.min(own, ...ends.filter((end) => end >= own - LAG_BUCKETS_MAX))
}

/** Decisions by steps of time, of one node and of several together. */
import type { SeriesSnapshot } from './node-snapshot.js'
import { BucketCounts } from './time-buckets.js'

/** What a rule, or everything together, has counted since the start. */
export interface Totals {
  readonly allowed: number
  readonly refused: number
  readonly shadowRefused: number
  /** Also counted as one of the others. */
  readonly degraded: number
}

const FIELDS = [
  'allowed',
  'refused',
  'shadowRefused',
  'degraded',
] as const satisfies (keyof Totals & keyof SeriesSnapshot)[]

const ZERO_TOTALS: Totals = { allowed: 0, refused: 0, shadowRefused: 0, degraded: 0 }

/** The steps of one rule, or of everything together; made when there is something to count. */
export class BucketRing {
  readonly #capacity: number
  #counts: BucketCounts | undefined
  readonly #previous = { ...ZERO_TOTALS }

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  /** Whether there may be something in one of the kept steps. */
  get hasData(): boolean {
    return this.#counts !== undefined
  }

  /** Counts into a step by how much the totals have grown since the last time. */
  feed(bucket: number, totals: Totals): void {
    this.#counts ??= new BucketCounts({ capacity: this.#capacity, width: FIELDS.length, bucket })
    this.#counts.advanceTo(bucket)
    for (let i = 0; i < FIELDS.length; i++) {
      const field = FIELDS[i] ?? 'allowed'
      this.#counts.add(bucket, i, totals[field] - this.#previous[field])
      this.#previous[field] = totals[field]
    }
  }

  /** Forgets this step and what lies ahead of it: the clock was put back. */
  rewind(bucket: number): void {
    this.#counts?.rewind(bucket)
  }

  /** Gives its memory back: all steps have long been empty. */
  drop(): void {
    this.#counts = undefined
  }

  /** The steps from `from` up to `end`, which is not among them; as many as are kept. */
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

  /** Of the kept steps up to `end`, all that were counted, and all that were refused. */
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
 * The same steps of several nodes added up: from the first that one of them tells of, at most
 * `kept`, up to `end`. Where a node does not tell of a step it counts as nothing.
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

/** A node that is as many steps behind is not waited for. */
const LAG_BUCKETS_MAX = 3

/**
 * Up to where all have told: the least of the ends, but of those that are far behind. `own` is the
 * latest there is; nodes whose clock runs ahead hold nobody up.
 */
export function commonEnd(own: number, ends: readonly number[]): number {
  return Math.min(own, ...ends.filter((end) => end >= own - LAG_BUCKETS_MAX))
}

/** Histograms over time: the counts of each time bucket, their merge and quantiles. */
import type { LatencySnapshot } from './node-snapshot.js'
import { BucketCounts } from './time-buckets.js'

export interface HistogramReader {
  /** Ascending. */
  readonly bounds: readonly number[]
  /** Counts since the start, one more than bounds. */
  counts(): ArrayLike<number>
}

export const NO_LATENCY: LatencySnapshot = { bounds: [], steps: [] }

export class HistogramRing {
  readonly #histogram: HistogramReader
  readonly #capacity: number
  readonly #counts: BucketCounts
  readonly #previous: Float64Array

  constructor(histogram: HistogramReader, capacity: number, bucket: number) {
    this.#histogram = histogram
    this.#capacity = capacity
    this.#counts = new BucketCounts({ capacity, width: histogram.bounds.length + 1, bucket })
    this.#previous = Float64Array.from(histogram.counts())
  }

  /** Adds what the histogram counted since the last call to a bucket. */
  feed(bucket: number): void {
    this.#counts.advanceTo(bucket)
    const now = this.#histogram.counts()
    for (let i = 0; i < this.#previous.length; i++) {
      const delta = (now[i] ?? 0) - (this.#previous[i] ?? 0)
      if (delta > 0) this.#counts.add(bucket, i, delta)
      this.#previous[i] = now[i] ?? 0
    }
  }

  /** Forgets this bucket and later ones, after the clock was set back. */
  rewind(bucket: number): void {
    this.#counts.rewind(bucket)
  }

  /** Returns the buckets from `from` to before `end`, as many as are kept. */
  latency(from: number, end: number): LatencySnapshot {
    const steps: (readonly number[])[] = []
    for (let bucket = Math.max(from, end - this.#capacity); bucket < end; bucket++) {
      const pairs: number[] = []
      for (let i = 0; i < this.#previous.length; i++) {
        const count = this.#counts.at(bucket, i)
        if (count > 0) pairs.push(i, count)
      }
      steps.push(pairs)
    }
    return { bounds: [...this.#histogram.bounds], steps }
  }

  /** The count at one place of the histogram over all kept buckets and the current one. */
  sum(place: number, end: number): number {
    let sum = 0
    for (let bucket = end - this.#capacity; bucket <= end; bucket++)
      sum += this.#counts.at(bucket, place)
    return sum
  }
}

/**
 * Estimates the quantile `q` by linear interpolation between bounds; values above the last bound
 * count as that bound. Returns null if nothing was counted.
 */
export function quantile(
  bounds: readonly number[],
  counts: ArrayLike<number>,
  q: number,
): number | null {
  let total = 0
  for (let i = 0; i <= bounds.length; i++) total += counts[i] ?? 0
  if (total === 0) return null
  const target = q * total
  let below = 0
  for (let i = 0; i < bounds.length; i++) {
    const count = counts[i] ?? 0
    if (count > 0 && below + count >= target) {
      const from = bounds[i - 1] ?? 0
      return from + (((bounds[i] ?? 0) - from) * Math.max(0, target - below)) / count
    }
    below += count
  }
  return bounds.at(-1) ?? null
}

/** The latencies of one node, and the bucket after its last one. */
export interface NodeLatency {
  readonly latency: LatencySnapshot
  readonly end: number
}

/** The summed counts of all nodes. */
export interface MergedLatency {
  readonly bounds: readonly number[]
  /** Undefined for a bucket without counts. */
  readonly steps: readonly (Float64Array | undefined)[]
}

/** Sums `length` buckets up to `end`. Leaves out nodes of releases with other bounds. */
export function mergeLatency(
  all: readonly NodeLatency[],
  { end, length }: { readonly end: number; readonly length: number },
): MergedLatency {
  const bounds = all.find(({ latency }) => latency.bounds.length > 0)?.latency.bounds ?? []
  const steps = Array.from({ length }, (): Float64Array | undefined => undefined)
  for (const { latency, end: ownEnd } of all) {
    if (!haveSameBounds(latency.bounds, bounds)) continue
    const offset = ownEnd - latency.steps.length - (end - length)
    for (const [i, pairs] of latency.steps.entries()) {
      const place = i + offset
      if (place < 0 || place >= length || pairs.length === 0) continue
      steps[place] = addPairs(steps[place] ?? new Float64Array(bounds.length + 1), pairs)
    }
  }
  return { bounds, steps }
}

function addPairs(counts: Float64Array, pairs: readonly number[]): Float64Array {
  for (let i = 0; i + 1 < pairs.length; i += 2) {
    const place = pairs[i] ?? 0
    if (place < counts.length) counts[place] = (counts[place] ?? 0) + (pairs[i + 1] ?? 0)
  }
  return counts
}

function haveSameBounds(one: readonly number[], other: readonly number[]): boolean {
  return one.length === other.length && one.every((bound, i) => bound === other[i])
}

/** Histograms with fixed bounds. */

interface Histogram {
  /** Counts a value, `times` times. */
  observe(value: number, times?: number): void
}

/** A histogram that statistics read as well. */
export interface ReadableHistogram extends Histogram {
  /** Ascending. */
  readonly bounds: readonly number[]
  /** The count of each bucket: one for each bound, and one above the last. */
  counts(): Float64Array
}

export interface LabelledHistogram {
  /** Returns the series of these label values, in the order of the label names. */
  labels(...values: readonly string[]): ReadableHistogram
}

/** What the names of a histogram's samples add to its own. */
export const HISTOGRAM_SUFFIX = /_(?:bucket|sum|count)$/
/** The label of the bound of a bucket, reserved for it. */
const BOUND_LABEL = 'le'
const BOUNDS_MAX = 64

/** One series of a histogram. */
export class HistogramSeries implements ReadableHistogram {
  readonly bounds: readonly number[]
  readonly #bounds: Float64Array
  readonly #counts: Float64Array
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.#bounds = Float64Array.from(bounds)
    this.#counts = new Float64Array(bounds.length + 1)
  }

  observe(value: number, times = 1): void {
    const bounds = this.#bounds
    let place = 0
    // A linear search: there are few bounds, and most values lie below the first.
    while (place < bounds.length && value > (bounds[place] ?? 0)) place++
    this.#counts[place] = (this.#counts[place] ?? 0) + times
    this.#sum += value * times
  }

  counts(): Float64Array {
    return this.#counts.slice()
  }

  /** Formats cumulative buckets, sum and count. `labels` are in the text format, without braces. */
  lines(name: string, labels: string): readonly string[] {
    const prefix = labels === '' ? '' : `${labels},`
    const own = labels === '' ? '' : `{${labels}}`
    let count = 0
    const buckets = Array.from(this.#counts, (bucketCount, place) => {
      count += bucketCount
      return `${name}_bucket{${prefix}${BOUND_LABEL}="${this.bounds[place] ?? '+Inf'}"} ${count}`
    })
    return [...buckets, `${name}_sum${own} ${this.#sum}`, `${name}_count${own} ${count}`]
  }
}

export function requireBounds(name: string, bounds: readonly number[]): void {
  const isRising = bounds.every((bound, place) => bound > (bounds[place - 1] ?? -Infinity))
  const isFinite = bounds.every((bound) => Number.isFinite(bound))
  if (isRising && isFinite && bounds.length > 0 && bounds.length <= BOUNDS_MAX) return
  throw new Error(`metric ${name}: accepted: 1 to ${BOUNDS_MAX} bounds, each above the one before`)
}

export function requireNoBoundLabel(name: string, labelNames: readonly string[]): void {
  if (!labelNames.includes(BOUND_LABEL)) return
  throw new Error(`metric ${name}, label ${BOUND_LABEL}: that of the bounds; accepted: another`)
}

/** How often a number lay below each of some bounds: for times, of which a mean says little. */

export interface Histogram {
  /** Counts a number, as if it had been seen so many times. */
  observe(value: number, times?: number): void
}

/** What the samples of a histogram are named beside its own name. */
export const HISTOGRAM_SUFFIX = /_(?:bucket|sum|count)$/
const BOUNDS_MAX = 64

export class KeptHistogram implements Histogram {
  readonly type = 'histogram'
  readonly labelNames: readonly string[] = []
  readonly name: string
  readonly help: string
  readonly #bounds: Float64Array
  /** One for each bound, and one for what lies above the last. */
  readonly #counts: Float64Array
  #sum = 0

  constructor(name: string, help: string, bounds: readonly number[]) {
    requireBounds(name, bounds)
    this.name = name
    this.help = help
    this.#bounds = Float64Array.from(bounds)
    this.#counts = new Float64Array(bounds.length + 1)
  }

  observe(value: number, times = 1): void {
    const bounds = this.#bounds
    let place = 0
    // Few bounds, and most of what is counted lies below the first of them.
    while (place < bounds.length && value > (bounds[place] ?? 0)) place++
    this.#counts[place] = (this.#counts[place] ?? 0) + times
    this.#sum += value * times
  }

  /** Each bound with all that lies below it, the smallest first, as the format wants it. */
  lines(): readonly string[] {
    const { name } = this
    let count = 0
    const buckets = Array.from(this.#counts, (own, place) => {
      count += own
      return `${name}_bucket{le="${this.#bounds[place] ?? '+Inf'}"} ${count}`
    })
    return [...buckets, `${name}_sum ${this.#sum}`, `${name}_count ${count}`]
  }
}

function requireBounds(name: string, bounds: readonly number[]): void {
  const isRising = bounds.every((bound, place) => bound > (bounds[place - 1] ?? -Infinity))
  const isFinite = bounds.every((bound) => Number.isFinite(bound))
  if (isRising && isFinite && bounds.length > 0 && bounds.length <= BOUNDS_MAX) return
  throw new Error(`metric ${name}: accepted: 1 to ${BOUNDS_MAX} bounds, each above the one before`)
}

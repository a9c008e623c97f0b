/** By how much the counts of many rules have grown in the last seconds. */

/** As many as the metrics tell apart, and what they call the rest. */
export const RULES_MAX = 20_001
const ROWS_AT_FIRST = 64

/** One row of numbers for each name, in one piece of memory: an array for each would be larger. */
export class RecentCounts {
  readonly #width: number
  readonly #rows = new Map<string, number>()
  #counts: Float64Array
  #second = 0

  constructor(seconds: number) {
    this.#width = seconds + 1
    this.#counts = new Float64Array(ROWS_AT_FIRST * this.#width)
  }

  /** Before the counts of a second are put in. */
  nextSecond(): void {
    this.#second++
  }

  /** Puts a count in; returns by how much it has grown. Before the first it was 0. */
  turn(name: string, count: number): number {
    const row = this.#rows.get(name) ?? this.add(name)
    if (row === undefined) return 0
    const start = row * this.#width
    this.#counts[start + (this.#second % this.#width)] = count
    return count - (this.#counts[start + ((this.#second + 1) % this.#width)] ?? 0)
  }

  private add(name: string): number | undefined {
    const row = this.#rows.size
    if (row >= RULES_MAX) return undefined
    this.#rows.set(name, row)
    if ((row + 1) * this.#width <= this.#counts.length) return row
    const grown = new Float64Array(2 * this.#counts.length)
    grown.set(this.#counts)
    this.#counts = grown
    return row
  }
}

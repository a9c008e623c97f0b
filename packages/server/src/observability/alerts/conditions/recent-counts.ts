/** Measures by how much the counts of many rules have grown in the last seconds. */

/** The rules that metrics distinguish, plus `other`. */
export const RULES_MAX = 20_001
const ROWS_AT_FIRST = 64

/** Gives each name a row, up to a bound. */
export class RowNames {
  readonly #rows = new Map<string, number>()

  /** Returns undefined if there are too many names. */
  rowOf(name: string): number | undefined {
    const known = this.#rows.get(name)
    if (known !== undefined) return known
    const row = this.#rows.size
    if (row >= RULES_MAX) return undefined
    this.#rows.set(name, row)
    return row
  }
}

/** One row of numbers for each name, in a single array to save memory. */
export class CountTable {
  readonly #width: number
  #counts: Float64Array
  #step = 0

  constructor(steps: number) {
    this.#width = steps + 1
    this.#counts = new Float64Array(ROWS_AT_FIRST * this.#width)
  }

  /** Called before the counts of a step are recorded. */
  nextStep(): void {
    this.#step++
  }

  /** Records a count and returns its growth over the window. Counts start at 0. */
  record(row: number, count: number): number {
    this.makeRoom(row)
    const start = row * this.#width
    this.#counts[start + (this.#step % this.#width)] = count
    return count - (this.#counts[start + ((this.#step + 1) % this.#width)] ?? 0)
  }

  /** Returns in how many of the last steps the count has grown. @default all steps kept */
  grownSteps(row: number, last = this.#width - 1): number {
    const start = row * this.#width
    let steps = 0
    for (let i = this.#width - last; i < this.#width; i++) {
      const before = this.#counts[start + ((this.#step + i) % this.#width)] ?? 0
      const after = this.#counts[start + ((this.#step + i + 1) % this.#width)] ?? 0
      if (after > before) steps++
    }
    return steps
  }

  /** Restarts from this count, with no growth so far. */
  restart(row: number, count: number): void {
    this.makeRoom(row)
    this.#counts.fill(count, row * this.#width, (row + 1) * this.#width)
  }

  private makeRoom(row: number): void {
    if ((row + 1) * this.#width <= this.#counts.length) return
    const grown = new Float64Array(Math.max(2 * this.#counts.length, (row + 1) * this.#width))
    grown.set(this.#counts)
    this.#counts = grown
  }
}

export class RecentCounts {
  readonly #names = new RowNames()
  readonly #table: CountTable

  constructor(seconds: number) {
    this.#table = new CountTable(seconds)
  }

  /** Called before the counts of a second are recorded. */
  nextSecond(): void {
    this.#table.nextStep()
  }

  /** Records a count and returns its growth over the window. Counts start at 0. */
  record(name: string, count: number): number {
    const row = this.#names.rowOf(name)
    return row === undefined ? 0 : this.#table.record(row, count)
  }

  /** Restarts from this count, with no growth so far. */
  restart(name: string, count: number): void {
    const row = this.#names.rowOf(name)
    if (row !== undefined) this.#table.restart(row, count)
  }
}

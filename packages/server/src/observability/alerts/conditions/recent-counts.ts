/** By how much the counts of many rules have grown in the last seconds. */

/** As many as the metrics tell apart, and what they call the rest. */
export const RULES_MAX = 20_001
const ROWS_AT_FIRST = 64

/** Gives each name a row, up to a bound. */
export class RowNames {
  readonly #rows = new Map<string, number>()

  /** Undefined: there are too many names. */
  rowOf(name: string): number | undefined {
    const known = this.#rows.get(name)
    if (known !== undefined) return known
    const row = this.#rows.size
    if (row >= RULES_MAX) return undefined
    this.#rows.set(name, row)
    return row
  }
}

/** One row of numbers for each name, in one piece of memory: an array for each would be larger. */
export class CountTable {
  readonly #width: number
  #counts: Float64Array
  #step = 0

  constructor(steps: number) {
    this.#width = steps + 1
    this.#counts = new Float64Array(ROWS_AT_FIRST * this.#width)
  }

  /** Before the counts of a step are put in. */
  nextStep(): void {
    this.#step++
  }

  /** Puts a count in; returns by how much it has grown. Before the first it was 0. */
  record(row: number, count: number): number {
    this.makeRoom(row)
    const start = row * this.#width
    this.#counts[start + (this.#step % this.#width)] = count
    return count - (this.#counts[start + ((this.#step + 1) % this.#width)] ?? 0)
  }

  /** In how many of the steps, or of the last of them, it has grown. */
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

  /** Begins anew from this count: nothing has grown so far. */
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

  /** Before the counts of a second are put in. */
  nextSecond(): void {
    this.#table.nextStep()
  }

  /** Puts a count in; returns by how much it has grown. Before the first it was 0. */
  record(name: string, count: number): number {
    const row = this.#names.rowOf(name)
    return row === undefined ? 0 : this.#table.record(row, count)
  }

  /** Begins anew from this count: nothing has grown so far. */
  restart(name: string, count: number): void {
    const row = this.#names.rowOf(name)
    if (row !== undefined) this.#table.restart(row, count)
  }
}

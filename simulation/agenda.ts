/**
 * The event queue, ordered by true time; events at the same time keep the order in which they were
 * added.
 */

interface Entry {
  readonly at: number
  readonly order: number
  readonly run: () => void
}

export class Agenda {
  readonly #heap: Entry[] = []
  #order = 0
  #nowUs: number

  constructor(nowUs: number) {
    this.#nowUs = nowUs
  }

  /** True time, in microseconds: no clock of the simulation shows it. */
  get nowUs(): number {
    return this.#nowUs
  }

  /** Schedules an event, never before now. Returns a function that cancels it. */
  at(us: number, run: () => void): () => void {
    const entry = { at: Math.max(us, this.#nowUs), order: this.#order++, run }
    let isOff = false
    this.push({ ...entry, run: () => (isOff ? undefined : run()) })
    return () => {
      isOff = true
    }
  }

  after(us: number, run: () => void): () => void {
    return this.at(this.#nowUs + us, run)
  }

  /** Runs the next event, unless it is later than `untilUs`; then time advances to that. */
  step(untilUs: number): boolean {
    const next = this.#heap[0]
    if (next === undefined || next.at > untilUs) {
      this.#nowUs = Math.max(this.#nowUs, untilUs)
      return false
    }
    this.pop()
    this.#nowUs = next.at
    next.run()
    return true
  }

  private push(entry: Entry): void {
    const heap = this.#heap
    let at = heap.push(entry) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      const above = heap[parent]
      if (above === undefined || isBefore(above, entry)) break
      heap[at] = above
      at = parent
    }
    heap[at] = entry
  }

  private pop(): void {
    const heap = this.#heap
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      let below = heap[child]
      const right = heap[child + 1]
      if (below === undefined) break
      if (right !== undefined && isBefore(right, below)) {
        child += 1
        below = right
      }
      if (isBefore(last, below)) break
      heap[at] = below
      at = child
    }
    heap[at] = last
  }
}

function isBefore(a: Entry, b: Entry): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}

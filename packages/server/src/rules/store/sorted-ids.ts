/**
 * A sorted set of up to a million ids, in runs that are short enough to insert into, so that
 * neither a page nor a commit has to sort or move all of them.
 */
const RUN_LENGTH_MAX = 1024

export class SortedIds {
  /** No run is empty, unless it is the only one. */
  readonly #runs: string[][] = [[]]

  /** @param ids in any order, each once */
  constructor(ids: Iterable<string> = []) {
    const sorted = [...ids].sort()
    for (let at = 0; at < sorted.length; at += RUN_LENGTH_MAX / 2) {
      this.#runs[at / (RUN_LENGTH_MAX / 2)] = sorted.slice(at, at + RUN_LENGTH_MAX / 2)
    }
  }

  add(id: string): void {
    const index = this.runOf(id)
    const run = this.#runs[index] ?? []
    const place = placeOf(run, id)
    if (run[place] === id) return
    run.splice(place, 0, id)
    if (run.length > RUN_LENGTH_MAX) {
      this.#runs.splice(index + 1, 0, run.splice(RUN_LENGTH_MAX / 2))
    }
  }

  delete(id: string): void {
    const index = this.runOf(id)
    const run = this.#runs[index] ?? []
    const place = placeOf(run, id)
    if (run[place] !== id) return
    run.splice(place, 1)
    if (run.length === 0 && this.#runs.length > 1) this.#runs.splice(index, 1)
  }

  /** Returns the ids greater than `after`; from the first one if it is undefined. */
  page(after: string | undefined, limit: number): readonly string[] {
    const from = after ?? ''
    const found: string[] = []
    for (let index = this.runOf(from); index < this.#runs.length; index++) {
      const run = this.#runs[index] ?? []
      for (let place = placeOf(run, from); place < run.length; place++) {
        const id = run[place] ?? ''
        if (after !== undefined && id === after) continue
        if (found.length >= limit) return found
        found.push(id)
      }
    }
    return found
  }

  /** Returns the index of the last run whose first id is not greater, else 0. */
  private runOf(id: string): number {
    let low = 0
    let high = this.#runs.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if ((this.#runs[middle]?.[0] ?? '') <= id) low = middle
      else high = middle - 1
    }
    return low
  }
}

/** Returns the index of the id, or where it would be inserted. */
function placeOf(run: readonly string[], id: string): number {
  let low = 0
  let high = run.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((run[middle] ?? '') < id) low = middle + 1
    else high = middle
  }
  return low
}

/** A few callers by their hashes, each with the slice of time it was last seen in: exact. */

/** As many as there may be before a sketch is smaller and nearly as right. */
export const EXACT_MAX = 64
/** At first. There are always twice as many as callers, so that a look ends soon. */
const SLOTS_MIN = 16
/** A place holds the halves of a hash and the slice; 0 is no slice. */
const WIDTH = 3

export class ExactDistinct {
  #places = new Int32Array(SLOTS_MIN * WIDTH)
  #mask = SLOTS_MIN - 1
  #size = 0

  get size(): number {
    return this.#size
  }

  get bytes(): number {
    return this.#places.byteLength
  }

  /** False: it is a new one, and there are too many already. Slices count from 1. */
  add(hi: number, lo: number, slice: number): boolean {
    const places = this.#places
    const at = this.find(hi | 0, lo | 0)
    if (places[at + 2] === 0) {
      if (this.#size === EXACT_MAX) return false
      if ((this.#size + 1) * 2 > this.#mask + 1) {
        this.rebuild((this.#mask + 1) * 2, 0)
        return this.add(hi, lo, slice)
      }
      places[at] = hi
      places[at + 1] = lo
      this.#size++
    }
    places[at + 2] = slice
    return true
  }

  /** Forgets callers that were not seen after this slice. */
  forget(slice: number): void {
    this.rebuild(this.#mask + 1, slice)
  }

  each(visit: (hi: number, lo: number, slice: number) => void): void {
    const places = this.#places
    for (let at = 0; at < places.length; at += WIDTH) {
      const slice = places[at + 2] ?? 0
      if (slice !== 0) visit(places[at] ?? 0, places[at + 1] ?? 0, slice)
    }
  }

  /** Where a hash is, or where it would be. There is always a place that is free. */
  private find(hi: number, lo: number): number {
    const places = this.#places
    for (let place = lo & this.#mask; ; place = (place + 1) & this.#mask) {
      const at = place * WIDTH
      if (places[at + 2] === 0 || (places[at] === hi && places[at + 1] === lo)) return at
    }
  }

  private rebuild(places: number, after: number): void {
    const previous = this.#places
    this.#places = new Int32Array(places * WIDTH)
    this.#mask = places - 1
    this.#size = 0
    for (let at = 0; at < previous.length; at += WIDTH) {
      const slice = previous[at + 2] ?? 0
      if (slice > 0 && slice > after) this.add(previous[at] ?? 0, previous[at + 1] ?? 0, slice)
    }
  }
}

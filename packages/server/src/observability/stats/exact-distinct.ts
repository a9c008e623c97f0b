/** An exact set of up to 64 caller hashes, each with the time slice in which it was last seen. */

/** Beyond this many callers a sketch is smaller and nearly as accurate. */
export const EXACT_MAX = 64
/** Initial slots. At most half of the slots are used, so that probing stays short. */
const SLOTS_MIN = 16
/** A slot holds both halves of a hash and the slice; slice 0 marks a free slot. */
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

  /** Returns false if the caller is new and the set is full. Slices count from 1. */
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

  /** Forgets callers last seen in this slice or before. */
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

  /** Finds the slot of a hash, or the free slot where it belongs. A free slot always exists. */
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

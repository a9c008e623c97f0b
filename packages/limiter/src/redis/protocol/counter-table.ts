/**
 * The distinct counters of one batch, numbered from 0 in order of appearance. A hash table in
 * memory that every batch reuses, without a string or an object per counter.
 */
import type { CounterKey } from '@sluice/core'

const CAPACITY_AT_FIRST = 256
const SPREAD = 0x9e3779b1

export class CounterTable {
  #hi = new Int32Array(CAPACITY_AT_FIRST)
  #lo = new Int32Array(CAPACITY_AT_FIRST)
  /** The partition, and whether the counter is a list with its own key. */
  #homes = new Int32Array(CAPACITY_AT_FIRST)
  #uses = new Int32Array(CAPACITY_AT_FIRST)
  /** Twice as many slots as counters; a slot is used if its stamp is that of the batch. */
  #slots = new Int32Array(2 * CAPACITY_AT_FIRST)
  #stamps = new Int32Array(2 * CAPACITY_AT_FIRST)
  #stamp = 0
  #size = 0

  get size(): number {
    return this.#size
  }

  start(): void {
    this.#size = 0
    this.#stamp += 1
    if (this.#stamp < 2 ** 31) return
    this.#stamps.fill(0)
    this.#stamp = 1
  }

  /**
   * Returns the number of a counter, adding it if it is new. `kind` is 0 or 1; two kinds are two
   * counters.
   */
  find(key: CounterKey, kind: number): number {
    const hi = key.hi | 0
    const lo = key.lo | 0
    const home = 2 * key.partition + kind
    const mask = this.#slots.length - 1
    let slot = slotOf(hi, lo) & mask
    while (this.#stamps[slot] === this.#stamp) {
      const found = this.#slots[slot] ?? 0
      if (this.#lo[found] === lo && this.#hi[found] === hi && this.#homes[found] === home) {
        return found
      }
      slot = (slot + 1) & mask
    }
    if (this.#size === this.#hi.length) {
      this.grow()
      return this.find(key, kind)
    }
    const made = this.#size
    this.#size += 1
    this.#hi[made] = hi
    this.#lo[made] = lo
    this.#homes[made] = home
    this.#uses[made] = 0
    this.#slots[slot] = made
    this.#stamps[slot] = this.#stamp
    return made
  }

  /** Sets bits that say what the batch does with a counter. */
  use(counter: number, bits: number): void {
    this.#uses[counter] = this.uses(counter) | bits
  }

  uses(counter: number): number {
    return this.#uses[counter] ?? 0
  }

  hi(counter: number): number {
    return this.#hi[counter] ?? 0
  }

  lo(counter: number): number {
    return this.#lo[counter] ?? 0
  }

  partition(counter: number): number {
    return (this.#homes[counter] ?? 0) >>> 1
  }

  private grow(): void {
    this.#hi = doubled(this.#hi)
    this.#lo = doubled(this.#lo)
    this.#homes = doubled(this.#homes)
    this.#uses = doubled(this.#uses)
    this.#slots = new Int32Array(2 * this.#hi.length)
    this.#stamps = new Int32Array(2 * this.#hi.length)
    const mask = this.#slots.length - 1
    for (let counter = 0; counter < this.#size; counter++) {
      let slot = slotOf(this.hi(counter), this.lo(counter)) & mask
      while (this.#stamps[slot] === this.#stamp) slot = (slot + 1) & mask
      this.#slots[slot] = counter
      this.#stamps[slot] = this.#stamp
    }
  }
}

function slotOf(hi: number, lo: number): number {
  return Math.imul(lo, SPREAD) ^ hi
}

function doubled(numbers: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(2 * numbers.length)
  larger.set(numbers)
  return larger
}

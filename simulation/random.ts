/** Pseudorandom numbers from a seed, so that every run can be repeated. */

export class Random {
  #a: number
  #b: number
  #c: number
  #count = 1

  constructor(seed: number) {
    this.#a = seed | 0
    this.#b = Math.floor(seed / 2 ** 32) | 0
    this.#c = 0x9e3779b9 | 0
    for (let i = 0; i < 15; i++) this.word()
  }

  /** From 0 up to, not including, 1. */
  next(): number {
    return this.word() / 2 ** 32
  }

  /** A whole number, both ends included. */
  int(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1))
  }

  chance(share: number): boolean {
    return this.next() < share
  }

  pick<Item>(items: readonly [Item, ...Item[]]): Item {
    return items[this.int(0, items.length - 1)] ?? items[0]
  }

  /** Exponentially distributed with this mean: small values often, large ones seldom. */
  spread(mean: number): number {
    return -Math.log(1 - this.next()) * mean
  }

  /**
   * The small fast counting generator of Chris Doty-Humphrey: 32 bits per step, no short cycles.
   */
  private word(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#count) | 0
    this.#count = (this.#count + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0
    return sum >>> 0
  }
}

/**
 * Says of most callers without an override that they have none, in one look at a few bits: those
 * of 100,000 overrides fit into a processor's cache, where the overrides do not.
 *
 * It only ever learns. Indexes of several snapshots may share one: what an older one is told of a
 * later caller is a "maybe", and then it looks.
 */
/** One caller in eight without an override, at most, is looked for in vain. */
const BITS_PER_CALLER = 8
const BITS_MIN = 1024

export class CallerFilter {
  readonly #words: Int32Array
  readonly #mask: number
  #added = 0

  constructor(callers: number) {
    let bits = BITS_MIN
    // Twice as many may come before it has to be made anew.
    while (bits < 2 * callers * BITS_PER_CALLER) bits *= 2
    this.#words = new Int32Array(bits / 32)
    this.#mask = bits - 1
  }

  /** Whether it is large enough for so many, and not full of those that went. */
  hasRoomFor(callers: number): boolean {
    const room = (this.#mask + 1) / BITS_PER_CALLER
    return callers <= room && this.#added <= room
  }

  /** `lo` is the low half of a hash. */
  add(lo: number): void {
    const bit = lo & this.#mask
    const word = bit >>> 5
    this.#words[word] = (this.#words[word] ?? 0) | (1 << (bit & 31))
    this.#added++
  }

  mayHave(lo: number): boolean {
    const bit = lo & this.#mask
    return ((this.#words[bit >>> 5] ?? 0) & (1 << (bit & 31))) !== 0
  }
}

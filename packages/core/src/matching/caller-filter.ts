/**
 * A Bloom filter of one hash that rules out most callers without an override by reading one bit.
 * The bits of 100,000 overrides fit into a processor's cache; the overrides do not.
 *
 * Entries are only added, so indexes of several snapshots may share a filter: a later caller is
 * then a false positive for an older index, which checks its own entries.
 */
/** At most one in eight callers without an override is a false positive. */
const BITS_PER_CALLER = 8
const BITS_MIN = 1024

export class CallerFilter {
  readonly #words: Int32Array
  readonly #mask: number
  #added = 0

  constructor(callers: number) {
    let bits = BITS_MIN
    // Twice as many callers may be added before it is rebuilt.
    while (bits < 2 * callers * BITS_PER_CALLER) bits *= 2
    this.#words = new Int32Array(bits / 32)
    this.#mask = bits - 1
  }

  /** Whether it is large enough for so many callers, and not full of removed ones. */
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

/**
 * Records of 40 bytes in chunks of typed arrays: outside the garbage-collected heap, and never
 * moved.
 *
 *   8  hash of the key            two 32-bit words
 * 24  state of the counter       three doubles, see codec.ts
 *   4  what it is                 limit in the low 24 bits, then 7 of the format, then whether it
 *                                 is durable; 0: free
 *   4  partition of the key; while the record is free, the next free record
 */

const CHUNK_BITS = 13
const CHUNK_RECORDS = 1 << CHUNK_BITS
const CHUNK_MASK = CHUNK_RECORDS - 1
const RECORD_DOUBLES = 5
const RECORD_WORDS = 10
export const RECORD_BYTES = 40
const META_WORD = 8
const PARTITION_WORD = 9
const NEXT_WORD = PARTITION_WORD

interface Chunk {
  readonly doubles: Float64Array
  readonly words: Int32Array
}

export class Slab {
  readonly #chunks: Chunk[] = []
  #used = 0
  #firstFree = -1
  #live = 0

  /** Records in use. */
  get live(): number {
    return this.#live
  }

  /** The end of the records ever used; every live record is below it. */
  get end(): number {
    return this.#used
  }

  get bytes(): number {
    return this.#chunks.length * CHUNK_RECORDS * RECORD_BYTES
  }

  allocate(hi: number, lo: number, partition: number): number {
    const record = this.#firstFree === -1 ? this.extend() : this.reuse()
    const words = this.words(record)
    const at = this.wordAt(record)
    words[at] = hi
    words[at + 1] = lo
    words[at + PARTITION_WORD] = partition
    this.#live += 1
    return record
  }

  free(record: number): void {
    const words = this.words(record)
    const at = this.wordAt(record)
    words[at + META_WORD] = 0
    words[at + NEXT_WORD] = this.#firstFree
    this.#firstFree = record
    this.#live -= 1
  }

  has(record: number, hi: number, lo: number): boolean {
    const words = this.words(record)
    const at = this.wordAt(record)
    return words[at] === hi && words[at + 1] === lo
  }

  hi(record: number): number {
    return this.words(record)[this.wordAt(record)] ?? 0
  }

  lo(record: number): number {
    return this.words(record)[this.wordAt(record) + 1] ?? 0
  }

  partition(record: number): number {
    return this.words(record)[this.wordAt(record) + PARTITION_WORD] ?? 0
  }

  meta(record: number): number {
    return this.words(record)[this.wordAt(record) + META_WORD] ?? 0
  }

  setMeta(record: number, meta: number): void {
    this.words(record)[this.wordAt(record) + META_WORD] = meta
  }

  /** Returns the array that holds a record's state, from `stateAt` on. */
  doubles(record: number): Float64Array {
    return chunkOf(this.#chunks, record).doubles
  }

  stateAt(record: number): number {
    return (record & CHUNK_MASK) * RECORD_DOUBLES + 1
  }

  private words(record: number): Int32Array {
    return chunkOf(this.#chunks, record).words
  }

  private wordAt(record: number): number {
    return (record & CHUNK_MASK) * RECORD_WORDS
  }

  private reuse(): number {
    const record = this.#firstFree
    this.#firstFree = this.words(record)[this.wordAt(record) + NEXT_WORD] ?? -1
    return record
  }

  private extend(): number {
    const record = this.#used
    if (record === this.#chunks.length * CHUNK_RECORDS) {
      const buffer = new ArrayBuffer(CHUNK_RECORDS * RECORD_BYTES)
      this.#chunks.push({ doubles: new Float64Array(buffer), words: new Int32Array(buffer) })
    }
    this.#used += 1
    return record
  }
}

function chunkOf(chunks: readonly Chunk[], record: number): Chunk {
  const chunk = chunks[record >>> CHUNK_BITS]
  if (chunk === undefined) throw new RangeError(`No record ${record}`)
  return chunk
}

/** Bounds the memory of request bodies that are read before an upstream connection is taken. */

/** Bytes of one body. */
export const GATHERED_EACH_MAX = 16 * 1024
/** Bytes of all bodies of this process together; beyond it bodies are streamed. */
const GATHERED_ALL_MAX = 32 * 1024 * 1024

export class GatheredBytes {
  readonly #max: number
  #used = 0

  constructor(max = GATHERED_ALL_MAX) {
    this.#max = max
  }

  /** Whether there was room; then each byte is given back with `release`. */
  reserve(bytes: number): boolean {
    if (this.#used + bytes > this.#max) return false
    this.#used += bytes
    return true
  }

  release(bytes: number): void {
    this.#used -= bytes
  }

  used(): number {
    return this.#used
  }
}

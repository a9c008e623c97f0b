/** Bounds the memory of request bodies that are read before an upstream connection is taken. */

/** Bytes of one body. */
export const BUFFERED_BODY_MAX = 16 * 1024
/** Bytes of all bodies of this process together; beyond it bodies are streamed. */
const BUFFERED_TOTAL_MAX = 32 * 1024 * 1024

export class BodyMemory {
  readonly #max: number
  #used = 0

  constructor(max = BUFFERED_TOTAL_MAX) {
    this.#max = max
  }

  /** Whether there was room; if so, each byte is returned with `release`. */
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

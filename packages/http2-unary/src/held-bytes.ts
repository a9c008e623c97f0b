/**
 * The bytes that are held for clients: streams, incomplete requests, answers that wait for a
 * window, and output that waits to be read.
 */

/**
 * What every connection may hold while all together hold too much, so that clients at work are
 * served while others use up the memory: some thirty calls.
 */
const FREE_BYTES = 16 * 1_024

export class HeldBytes {
  readonly #max: number
  #bytes = 0

  constructor(max: number) {
    this.#max = max
  }

  get bytes(): number {
    return this.#bytes
  }

  get isOver(): boolean {
    return this.#bytes > this.#max
  }

  change(bytes: number): void {
    this.#bytes += bytes
  }
}

/** The part of one connection. */
export class HeldShare {
  readonly #total: HeldBytes
  readonly #max: number
  readonly #backlog: () => number
  #bytes = 0
  #countedBacklog = 0

  /** @param backlog how many bytes of output wait to be read */
  constructor(total: HeldBytes, max: number, backlog: () => number) {
    this.#total = total
    this.#max = max
    this.#backlog = backlog
  }

  /** Whether nothing more may be held for this connection. */
  get isOver(): boolean {
    const bytes = this.#bytes + this.#backlog()
    return bytes > this.#max || (bytes > FREE_BYTES && this.#total.isOver)
  }

  change(bytes: number): void {
    this.#bytes += bytes
    this.#total.change(bytes)
  }

  /** The output that waits is counted whenever the connection is served, not with each write. */
  countBacklog(bytes = this.#backlog()): void {
    this.#total.change(bytes - this.#countedBacklog)
    this.#countedBacklog = bytes
  }
}

/** The bytes that connections hold for clients: incomplete requests, and answers that wait. */
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

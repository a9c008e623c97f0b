type Close = () => unknown

/** Closes what was opened, the last first; for a start that fails midway as well as for a stop. */
export class Closers {
  readonly #closers: Close[] = []

  add(close: Close): void {
    this.#closers.push(close)
  }

  /** Closes everything once, one after the other. */
  async close(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close()
  }
}

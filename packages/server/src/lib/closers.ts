type Close = () => unknown

/** Closes what was opened, the last first; for a start that fails midway as well as for a stop. */
export class Closers {
  readonly #closers: Close[] = []
  #closing: Promise<void> | undefined

  add(close: Close): void {
    this.#closers.push(close)
  }

  /**
   * Closes everything once, one after the other, and all of it even if some fail: their errors are
   * thrown at the end. A call during another one waits for the same end.
   */
  close(): Promise<void> {
    this.#closing ??= this.closeAll().finally(() => (this.#closing = undefined))
    return this.#closing
  }

  /** Closes everything after a failed start and throws its error, whatever closing reports. */
  async closeAndThrow(error: unknown): Promise<never> {
    await this.close().catch(() => {})
    throw error
  }

  private async closeAll(): Promise<void> {
    const errors: unknown[] = []
    for (let close = this.#closers.pop(); close !== undefined; close = this.#closers.pop()) {
      try {
        await close()
      } catch (error) {
        errors.push(error)
      }
    }
    if (errors.length > 1) throw new AggregateError(errors, 'several parts could not be closed')
    if (errors.length === 1) throw errors[0]
  }
}

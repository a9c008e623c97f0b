/**
 * Ends the reservation of a request that holds places: not when its answer is known, but when the
 * call has ended. Until then it is in flight, and its handler may still settle what a stream used.
 */
export class PlacedReservation {
  readonly #end: (isCounted: boolean) => void
  #isCounted: boolean | undefined
  /** Whether the user's function has been asked if the call counts, and has not answered yet. */
  #isAsking = false
  #isReleased = false
  #isEnded = false

  /** `end` is called once, with whether the call stays counted. */
  constructor(end: (isCounted: boolean) => void) {
    this.#end = end
  }

  ask(): void {
    this.#isAsking = true
  }

  /** The answer says whether the call counts. */
  count(isCounted: boolean): void {
    this.#isAsking = false
    this.#isCounted = isCounted
    if (this.#isReleased) this.end()
  }

  /** The call has ended. One without an answer stays counted. */
  release(): void {
    this.#isReleased = true
    if (!this.#isAsking) this.end()
  }

  private end(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#end(this.#isCounted ?? true)
  }
}

/** Detects whether a process still gets faster, since JIT compilers work while it runs. */

/** A round that is faster by less than this fraction does not count as faster. */
const GAIN_MIN = 0.1
/** After so many rounds without a faster one, the time has settled. */
const ROUNDS_WITHOUT_GAIN = 5

export class PlateauDetector {
  #bestMs = Number.POSITIVE_INFINITY
  #roundsWithoutGain = 0

  /** Records how long a round took. */
  record(tookMs: number): void {
    if (tookMs < this.#bestMs * (1 - GAIN_MIN)) {
      this.#bestMs = tookMs
      this.#roundsWithoutGain = 0
    } else this.#roundsWithoutGain += 1
  }

  get isSettled(): boolean {
    return this.#roundsWithoutGain >= ROUNDS_WITHOUT_GAIN
  }
}

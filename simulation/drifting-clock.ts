/** A clock that runs a little too fast or too slow, and can be stepped or stopped. */

export class DriftingClock {
  #trueUs: number
  #us: number
  #rate: number
  readonly #driftPpm: number

  /** Shows `us` when the true time is `trueUs`. */
  constructor(trueUs: number, us: number, driftPpm: number) {
    this.#trueUs = trueUs
    this.#us = us
    this.#driftPpm = driftPpm
    this.#rate = 1 + driftPpm / 1e6
  }

  read(trueUs: number): number {
    return this.#us + (trueUs - this.#trueUs) * this.#rate
  }

  /** How much true time passes while the clock advances by this much. */
  trueLength(us: number): number {
    return us / (1 + this.#driftPpm / 1e6)
  }

  jump(trueUs: number, byUs: number): void {
    this.rebase(trueUs)
    this.#us += byUs
  }

  stop(trueUs: number): void {
    this.rebase(trueUs)
    this.#rate = 0
  }

  go(trueUs: number): void {
    this.rebase(trueUs)
    this.#rate = 1 + this.#driftPpm / 1e6
  }

  private rebase(trueUs: number): void {
    this.#us = this.read(trueUs)
    this.#trueUs = trueUs
  }
}

/** Runs a few jobs at a time, in order. The caller bounds the number of waiting jobs. */
export class Semaphore {
  readonly #permits: number
  #running = 0
  readonly #waiting: (() => void)[] = []

  constructor(permits: number) {
    this.#permits = permits
  }

  get waiting(): number {
    return this.#waiting.length
  }

  async run<Result>(job: () => Promise<Result>): Promise<Result> {
    if (this.#running < this.#permits) this.#running++
    // A finished job hands its turn to the next waiter, so that no later job can overtake it.
    else await new Promise<void>((start) => this.#waiting.push(start))
    try {
      return await job()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#running--
      else next()
    }
  }
}

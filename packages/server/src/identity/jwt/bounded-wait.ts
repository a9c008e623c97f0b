/**
 * A job that many wait for, but none for longer than it can afford: who has to go on gets another
 * answer, and the job is done without it.
 */
export class BoundedWait<Result> {
  readonly done: Promise<Result>
  readonly #late: Result
  /** One for each bound, of which there are as many as there are ways in. */
  readonly #waits = new Map<number, Promise<Result>>()

  /** `late` is the answer to those who could not wait. */
  constructor(done: Promise<Result>, late: Result) {
    this.done = done
    this.#late = late
  }

  /**
   * The time runs from the first who can wait so long. Whoever comes later waits less, and not at
   * all when it is over, so that any number of them costs one timer.
   */
  within(ms: number): Promise<Result> {
    const known = this.#waits.get(ms)
    if (known !== undefined) return known
    const wait = this.wait(ms)
    this.#waits.set(ms, wait)
    return wait
  }

  private wait(ms: number): Promise<Result> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        // On a busy machine timers come late, before results that are there already.
        setImmediate(() => resolve(this.#late))
      }, ms)
      const stop = () => clearTimeout(timer)
      this.done.finally(stop).then(resolve, reject)
    })
  }
}

/**
 * A job with many waiters, each with a time limit. A waiter whose limit is reached gets another
 * result, and the job continues.
 */
export class BoundedWait<Result> {
  readonly done: Promise<Result>
  readonly #late: Result
  /** One timer for each time limit; each entry point has one limit. */
  readonly #waits = new Map<number, Promise<Result>>()

  /** `late` is the result for waiters that reach their limit. */
  constructor(done: Promise<Result>, late: Result) {
    this.done = done
    this.#late = late
  }

  /**
   * The time runs from the first waiter with this limit. Later ones wait less, or not at all when
   * it is over, so that any number of waiters needs one timer.
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
        // On a busy machine a late timer fires before results that are available.
        setImmediate(() => resolve(this.#late))
      }, ms)
      const stop = () => clearTimeout(timer)
      this.done.finally(stop).then(resolve, reject)
    })
  }
}

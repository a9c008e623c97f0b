/** What is done again and again: never two at a time, and no reason to keep a process alive. */

export interface Scheduler {
  /** Calls back once, after so many milliseconds. What it returns calls that off. */
  after(ms: number, run: () => void): () => void
}

export const systemScheduler: Scheduler = {
  after: (ms, run) => {
    const timer = setTimeout(run, ms)
    timer.unref()
    return () => clearTimeout(timer)
  },
}

export class PeriodicTask {
  readonly #everyMs: number
  readonly #run: () => Promise<void>
  readonly #scheduler: Scheduler
  #cancel: (() => void) | undefined
  #isRunning = false

  /** What `run` has to say of its failures it says itself; here they only end the round. */
  constructor(everyMs: number, run: () => Promise<void>, scheduler: Scheduler) {
    this.#everyMs = everyMs
    this.#run = run
    this.#scheduler = scheduler
  }

  /** The first round begins now, or after one interval. */
  start(first: 'now' | 'later' = 'now'): void {
    if (this.#cancel !== undefined) return
    this.schedule()
    if (first === 'now') this.runOnce()
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  private schedule(): void {
    this.#cancel = this.#scheduler.after(this.#everyMs, () => {
      this.schedule()
      this.runOnce()
    })
  }

  /** A round that outlasts its interval takes the place of the next. */
  private runOnce(): void {
    if (this.#isRunning) return
    this.#isRunning = true
    const done = () => {
      this.#isRunning = false
    }
    try {
      this.#run().then(done, done)
    } catch {
      done()
    }
  }
}

/** Runs a task at an interval: one run at a time, without keeping the process alive. */

export interface Scheduler {
  /**
   * Calls `run` once after `ms`, unless the returned function is called before. Keeps no process
   * alive.
   */
  after(ms: number, run: () => void): () => void
}

export const systemScheduler: Scheduler = {
  after: (ms, run) => {
    const timer: ReturnType<typeof setTimeout> | number = setTimeout(run, ms)
    // A number in runtimes other than Node, where no timer keeps anything alive.
    if (typeof timer === 'object') timer.unref()
    return () => clearTimeout(timer)
  },
}

export class PeriodicTask {
  readonly #everyMs: number
  readonly #run: () => Promise<void>
  readonly #scheduler: Scheduler
  #cancel: (() => void) | undefined
  #isRunning = false

  /** `run` handles its own errors; here a rejection only ends the run. */
  constructor(everyMs: number, run: () => Promise<void>, scheduler: Scheduler) {
    this.#everyMs = everyMs
    this.#run = run
    this.#scheduler = scheduler
  }

  /** The first run starts now, or after one interval. */
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

  /** A run that takes longer than the interval replaces the next one. */
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

/**
 * Finds workers that hang. A worker that runs says so once a second; one that is silent for too
 * many seconds in a row stands still, in an endless loop or stopped by a signal, while connections
 * are still handed to it.
 *
 * Seconds are counted by the first process's own timer, one at each check, and never read from a
 * clock: while the first process or the whole machine stands still nothing is counted, so that no
 * worker is found silent for that time.
 */

/** How often a worker says that it runs, and how often the first process checks. */
export const HEARTBEAT_MS = 1000

/**
 * How many checks a worker that serves may miss. The longest that a healthy one holds up its event
 * loop is to put 10,000 rules with 100,000 overrides into force: 1.3 s of a core. Parsing them is
 * done in a thread, a million keys in slices. The rest is for a machine that gives a process a
 * tenth of a core. Until it is found, at most one new connection per listener waits for it.
 */
const SILENT_CHECKS_MAX = 15
/**
 * How many one that starts may miss. It parses a rules file in one go, and on a machine with few
 * cores 64 workers start at once.
 */
const STARTING_CHECKS_MAX = 120

export interface LivenessOptions {
  /** @default 15 */
  readonly silentChecksMax?: number | undefined
}

interface WorkerState {
  silentChecks: number
  isServing: boolean
}

export class Liveness<Worker> {
  readonly #silentChecksMax: number
  readonly #state = new Map<Worker, WorkerState>()

  constructor({ silentChecksMax = SILENT_CHECKS_MAX }: LivenessOptions = {}) {
    this.#silentChecksMax = silentChecksMax
  }

  /** From when the worker is started. */
  watch(worker: Worker): void {
    this.#state.set(worker, { silentChecks: 0, isServing: false })
  }

  /** No longer found, however silent it is. */
  unwatch(worker: Worker): void {
    this.#state.delete(worker)
  }

  /** The worker said something. */
  recordHeartbeat(worker: Worker): void {
    const state = this.#state.get(worker)
    if (state !== undefined) state.silentChecks = 0
  }

  /** The worker listens: from now on less silence is allowed. */
  markServing(worker: Worker): void {
    const state = this.#state.get(worker)
    if (state !== undefined) state.isServing = true
  }

  isServing(worker: Worker): boolean {
    return this.#state.get(worker)?.isServing === true
  }

  /** Call once per heartbeat. Returns those that hang, each once: it watches them no longer. */
  check(): readonly { readonly worker: Worker; readonly silentMs: number }[] {
    const hung: { worker: Worker; silentMs: number }[] = []
    for (const [worker, state] of this.#state) {
      state.silentChecks++
      const most = state.isServing ? this.#silentChecksMax : STARTING_CHECKS_MAX
      if (state.silentChecks <= most) continue
      this.unwatch(worker)
      hung.push({ worker, silentMs: most * HEARTBEAT_MS })
    }
    return hung
  }
}

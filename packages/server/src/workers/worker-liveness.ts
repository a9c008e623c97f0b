/**
 * Finds workers that hang. A worker sends a heartbeat every second; one that misses too many in a
 * row is in an endless loop or stopped by a signal, while it is still given connections.
 *
 * Missed heartbeats are counted by the timer of the primary process, one at each check, and not by
 * a clock: while the primary process or the whole machine is suspended, none is counted.
 */

/** How often a worker sends a heartbeat, and how often the primary process checks. */
export const HEARTBEAT_MS = 1000

/**
 * How many checks a ready worker may miss. The longest that a healthy worker blocks its event loop
 * is 1.3 s of a core, to activate 10,000 rules with 100,000 overrides; rules are parsed in a
 * thread, and a million keys in slices. The rest is margin for a machine that gives a process a
 * tenth of a core. Until a hang is found, at most one new connection per listener waits for it.
 */
const SILENT_CHECKS_MAX = 15
/**
 * How many checks a starting worker may miss. It parses a rules file without a pause, and on a
 * machine with few cores 64 workers may start at once.
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

  /** Begins to check a worker, when it is started. */
  watch(worker: Worker): void {
    this.#state.set(worker, { silentChecks: 0, isServing: false })
  }

  /** Stops checking a worker. */
  unwatch(worker: Worker): void {
    this.#state.delete(worker)
  }

  /** Records any message of a worker as a heartbeat. */
  recordHeartbeat(worker: Worker): void {
    const state = this.#state.get(worker)
    if (state !== undefined) state.silentChecks = 0
  }

  /** Marks a worker as ready: from now on it may miss fewer heartbeats. */
  markServing(worker: Worker): void {
    const state = this.#state.get(worker)
    if (state !== undefined) state.isServing = true
  }

  isServing(worker: Worker): boolean {
    return this.#state.get(worker)?.isServing === true
  }

  /** Call once per heartbeat. Returns workers that hang, each once, and stops checking them. */
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

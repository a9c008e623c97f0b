/** Decides when the topology is polled: one round after the other, until it is closed. */

const HEALTHY_MS = 5000
const UNHEALTHY_MS = 250
/** The least time between two rounds, however many callers request one. */
const SOON_MS = 25
/** A round that is not finished by then is over. */
const ROUND_MS_MAX = 1000

export interface TopologyPollDeps {
  /** Polls, and calls `done` when it has learnt more or when no node answers. */
  poll(done: () => void): void
  /** Whether nothing is missing, so that the next round may wait. */
  isHealthy(): boolean
}

export class TopologyPoll {
  readonly #random: () => number
  readonly #deps: TopologyPollDeps
  readonly #healthyMs: number
  #timer: ReturnType<typeof setTimeout> | undefined
  #round = 0
  #isPolling = false
  #isHurried = false
  #isClosed = false

  constructor(random: () => number, deps: TopologyPollDeps, healthyMs = HEALTHY_MS) {
    this.#random = random
    this.#deps = deps
    this.#healthyMs = healthyMs
  }

  /** Requests a round soon, because the topology may have changed. */
  pollSoon(): void {
    if (this.#isClosed || this.#isHurried) return
    this.#isHurried = true
    if (!this.#isPolling) this.next(SOON_MS)
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  private next(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.poll(), ms)
  }

  private poll(): void {
    this.#isPolling = true
    this.#isHurried = false
    this.#round += 1
    const round = this.#round
    const done = () => {
      if (round === this.#round && this.#isPolling && !this.#isClosed) this.onPolled()
    }
    this.#timer = setTimeout(done, ROUND_MS_MAX)
    this.#deps.poll(done)
  }

  private onPolled(): void {
    this.#isPolling = false
    const usual = this.#deps.isHealthy() ? this.#healthyMs : UNHEALTHY_MS
    // Jitter, so that nodes which noticed the same change do not poll in step ever after.
    this.next(this.#isHurried ? SOON_MS : usual * (0.75 + this.#random() / 2))
  }
}

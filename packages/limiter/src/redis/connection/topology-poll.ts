/** When those who know the topology are asked about it: one round after the other, for ever. */

const HEALTHY_MS = 5000
const UNHEALTHY_MS = 250
/** However many want to know, so long passes between one round and the next. */
const SOON_MS = 25
/** A round that nobody ends is over after so long. */
const ROUND_MS_MAX = 1000

export interface TopologyPollDeps {
  /** Asks, and calls `done` when it knows more, or when nobody answers. */
  poll(done: () => void): void
  /** Whether nothing is missing, so that there is time until the next round. */
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

  /** Somebody has reason to believe that things have changed. */
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
    // Nodes that saw the same change must not ask at the same moments ever after.
    this.next(this.#isHurried ? SOON_MS : usual * (0.75 + this.#random() / 2))
  }
}

/**
 * Decides whether the server is asked. While it is open calls are decided by posture at once, and
 * single calls are sent as probes, so that a server that is gone costs few callers their deadline.
 */

/** Consecutive failures that open the breaker. */
const FAILURES_MAX = 5
/** Failures this close together are one: a short stall makes everything in flight late at once. */
const APART_MS = 20
const OPEN_MS_MIN = 1000
/** The pause between two probes after that; a random time of up to the same length is added. */
const PROBE_EVERY_MS = 200

export class ServerBreaker {
  readonly #nowMs: () => number
  /** From 0 to 1; it keeps the clients of a server from probing together. */
  readonly #random: () => number
  #failures = 0
  #failedMs = -Infinity
  /** Undefined while it is closed. */
  #probeAtMs: number | undefined

  constructor(nowMs: () => number, random: () => number) {
    this.#nowMs = nowMs
    this.#random = random
  }

  get isOpen(): boolean {
    return this.#probeAtMs !== undefined
  }

  /** Whether a call may be sent: `probe` if it is to find out whether the server is back. */
  admit(): 'call' | 'probe' | undefined {
    if (this.#probeAtMs === undefined) return 'call'
    if (this.#nowMs() < this.#probeAtMs) return undefined
    this.#probeAtMs = this.pauseOf(PROBE_EVERY_MS)
    return 'probe'
  }

  succeed(): void {
    this.#failures = 0
    this.#probeAtMs = undefined
  }

  /** Returns whether that opened the breaker. */
  fail(): boolean {
    const nowMs = this.#nowMs()
    if (this.isOpen || nowMs - this.#failedMs < APART_MS) return false
    this.#failedMs = nowMs
    this.#failures += 1
    return this.#failures >= FAILURES_MAX && this.trip()
  }

  /** Opens it at once: the server answers, and will not answer otherwise soon. */
  trip(): boolean {
    if (this.isOpen) return false
    this.#probeAtMs = this.pauseOf(OPEN_MS_MIN)
    return true
  }

  private pauseOf(leastMs: number): number {
    return this.#nowMs() + leastMs + this.#random() * PROBE_EVERY_MS
  }
}

/**
 * The circuit breaker of one Redis node. While it is open nobody asks the node anything, so a slow
 * store costs no call its deadline; probes of our own find out when it answers in time again.
 */

/** Failures in a row that open it. */
const FAILURES_MAX = 5
/**
 * Failures so close together are one: a hiccup of the store, or of this process, makes all that is
 * under way late at the same moment, and a second without the store is no cure for 30 ms.
 */
const APART_MS = 20
/** How long it stays open at least: a store that comes and goes must not be asked at each turn. */
const OPEN_MS_MIN = 1000
/** From then on probes leave so often, and each up to as much again later, by chance. */
const PROBE_EVERY_MS = 200

export class Breaker {
  readonly #nowMs: () => number
  readonly #random: () => number
  #failures = 0
  #failedMs = -Infinity
  #open = false
  #opened = 0
  #probeAtMs = 0

  /** `random` gives numbers from 0 to 1, so that the nodes of a fleet do not probe together. */
  constructor(nowMs: () => number, random: () => number) {
    this.#nowMs = nowMs
    this.#random = random
  }

  get isOpen(): boolean {
    return this.#open
  }

  /** How often it has opened. */
  get opened(): number {
    return this.#opened
  }

  /** Work was not answered in time. Says whether that opened it. */
  fail(): boolean {
    const nowMs = this.#nowMs()
    if (this.#open || nowMs - this.#failedMs < APART_MS) return false
    this.#failedMs = nowMs
    this.#failures += 1
    if (this.#failures < FAILURES_MAX) return false
    this.open()
    return true
  }

  /** The node is known to be gone: opens at once. Says whether that opened it. */
  trip(): boolean {
    if (this.#open) return false
    this.open()
    return true
  }

  /** Work was answered in time while it was closed. */
  succeed(): void {
    this.#failures = 0
  }

  /** Milliseconds until the next probe may leave. */
  probeInMs(): number {
    return Math.max(0, this.#probeAtMs - this.#nowMs())
  }

  /** A probe leaves now: the next one not before its time. */
  onProbe(): void {
    this.#probeAtMs = this.#nowMs() + PROBE_EVERY_MS + this.jitter()
  }

  /** A probe was answered in time. */
  close(): void {
    this.#open = false
    this.#failures = 0
  }

  private open(): void {
    this.#open = true
    this.#opened += 1
    this.#probeAtMs = this.#nowMs() + OPEN_MS_MIN + this.jitter()
  }

  private jitter(): number {
    return this.#random() * PROBE_EVERY_MS
  }
}

/**
 * The circuit breaker of one Redis node. While it is open no decision is sent to the node, so a
 * slow store costs no call its deadline. Probes find out when the node answers in time again.
 */

/** Consecutive failures that open the breaker. */
const FAILURES_MAX = 5
/**
 * Failures this close together count as one: a short stall of the store, or of this process, makes
 * everything in flight late at once, and a second without the store would be too high a price for a
 * stall of 30 ms.
 */
const APART_MS = 20
/** How long the breaker stays open at least, so that it does not flap with an unstable store. */
const OPEN_MS_MIN = 1000
/** The pause between two probes after that. A random time of up to the same length is added. */
const PROBE_EVERY_MS = 200

export class Breaker {
  readonly #nowMs: () => number
  readonly #random: () => number
  #failures = 0
  #failedMs = -Infinity
  #open = false
  #opened = 0
  #probeAtMs = 0

  /** `random` returns numbers from 0 to 1. It keeps the nodes of a fleet from probing together. */
  constructor(nowMs: () => number, random: () => number) {
    this.#nowMs = nowMs
    this.#random = random
  }

  get isOpen(): boolean {
    return this.#open
  }

  /** How many times the breaker has opened. */
  get opened(): number {
    return this.#opened
  }

  /** Records work that was not answered in time. Returns whether that opened the breaker. */
  fail(): boolean {
    const nowMs = this.#nowMs()
    if (this.#open || nowMs - this.#failedMs < APART_MS) return false
    this.#failedMs = nowMs
    this.#failures += 1
    if (this.#failures < FAILURES_MAX) return false
    this.open()
    return true
  }

  /**
   * Opens the breaker at once, because the node is known to be gone. Returns whether that opened
   * it.
   */
  trip(): boolean {
    if (this.#open) return false
    this.open()
    return true
  }

  /** Records work that was answered in time while the breaker was closed. */
  succeed(): void {
    this.#failures = 0
  }

  /** Milliseconds until the next probe may be sent. */
  probeInMs(): number {
    return Math.max(0, this.#probeAtMs - this.#nowMs())
  }

  /** Called when a probe is sent; sets the time of the next one. */
  onProbe(): void {
    this.#probeAtMs = this.#nowMs() + PROBE_EVERY_MS + this.jitter()
  }

  /** Closes the breaker, because a probe was answered in time. */
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

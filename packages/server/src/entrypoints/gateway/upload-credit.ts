/**
 * Decides when a request body arrives too slowly. A client starts with five seconds of credit, each
 * byte adds 1/240 of a second, and credit runs down while the gateway reads. So the average is at
 * least 240 bytes a second after the first five seconds, and a client that was fast may pause, but
 * never for longer than the maximum credit.
 */

/** The credit of a client before its first byte. */
const GRACE_MS = 5000
const BYTES_PER_SECOND_MIN = 240

export class UploadCredit {
  readonly #maxMs: number
  #leftMs: number
  /** Since when credit runs down; undefined while the gateway does not read. */
  #since: number | undefined

  /** `maxMs`: the maximum credit, and so the longest pause. */
  constructor(maxMs: number, nowMs: number) {
    this.#maxMs = maxMs
    this.#leftMs = Math.min(GRACE_MS, maxMs)
    this.#since = nowMs
  }

  /** Adds the credit of so many bytes. */
  add(bytes: number, nowMs: number): void {
    const leftMs = this.leftMs(nowMs) + (bytes * 1000) / BYTES_PER_SECOND_MIN
    this.#leftMs = Math.min(leftMs, this.#maxMs)
    if (this.#since !== undefined) this.#since = nowMs
  }

  /** Stops the clock while the gateway does not read, which is not the client's fault. */
  pause(nowMs: number): void {
    this.#leftMs = this.leftMs(nowMs)
    this.#since = undefined
  }

  resume(nowMs: number): void {
    if (this.#since === undefined) this.#since = nowMs
  }

  isPaused(): boolean {
    return this.#since === undefined
  }

  /** 0 or less: the body arrives too slowly. */
  leftMs(nowMs: number): number {
    return this.#since === undefined ? this.#leftMs : this.#leftMs - (nowMs - this.#since)
  }
}

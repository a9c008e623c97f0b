/** Where the frames of a connection go. */
export interface Transport {
  /**
   * Sends these bytes. True: they were sent or copied, and the buffer may be used again. False: it
   * belongs to the transport now.
   */
  send(bytes: Buffer): boolean
  /** Ends the sending side after what was sent. What is received from then on is dropped. */
  end(): void
  destroy(): void
  /** Stops reading for so long. */
  pauseFor(ms: number): void
  /** How many bytes of output wait for the peer to read them. */
  readonly backlogBytes: number
  /** How long output has waited for the peer without any progress. Asked about once a second. */
  blockedMs(nowMs: number): number
}

/** The answers of one chunk of 64 KiB are about as many bytes. */
const BUFFER_BYTES = 32_768

/**
 * The buffer in which the answers to one chunk are written, so that they leave in one write. All
 * connections share it, because one is served at a time: a buffer for each would be most of what an
 * idle connection needs.
 */
export class Output {
  bytes = Buffer.allocUnsafeSlow(BUFFER_BYTES)
  #used = 0
  #transport: Transport | undefined

  /**
   * What is written from now on goes to this transport. Returns the one before, which is given back
   * to `leave`: a handler may end other connections.
   */
  enter(transport: Transport): Transport | undefined {
    const previous = this.#transport
    if (previous !== transport) this.flush()
    this.#transport = transport
    return previous
  }

  leave(previous: Transport | undefined): void {
    this.flush()
    this.#transport = previous
  }

  /** The place for so many bytes, which may be as many as the largest frame with its header. */
  reserve(bytes: number): number {
    if (this.#used + bytes > BUFFER_BYTES) this.flush()
    const at = this.#used
    this.#used += bytes
    return at
  }

  flush(): void {
    if (this.#used === 0) return
    const written = this.bytes.subarray(0, this.#used)
    this.#used = 0
    if (this.#transport?.send(written) === false) {
      this.bytes = Buffer.allocUnsafeSlow(BUFFER_BYTES)
    }
  }
}

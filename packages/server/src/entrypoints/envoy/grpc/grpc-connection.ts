/** One HTTP/2 connection of a gRPC client: its streams, and when it is to end. */
import { constants, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import type { ConnectionTimes } from './grpc-server.js'

/** The last stream id: all streams that are still on their way are accepted. */
const LAST_STREAM = 2 ** 31 - 1

export class GrpcConnection {
  readonly #session: ServerHttp2Session
  readonly #times: ConnectionTimes
  readonly #startedMs: number
  /** The age at which this connection ends; they differ, so that clients do not return at once. */
  readonly #ageMs: number
  /** Unary calls in flight and when they began, the oldest first. */
  readonly #calls = new Map<ServerHttp2Stream, number>()
  #streams = 0
  #lastStreamMs: number
  #hasBegun = false
  /** When the client was last pinged. */
  #pingedMs: number
  #isPinging = false
  #noticedMs: number | undefined

  constructor(
    session: ServerHttp2Session,
    times: ConnectionTimes,
    { nowMs, jitter }: { readonly nowMs: number; readonly jitter: number },
  ) {
    this.#session = session
    this.#times = times
    this.#startedMs = nowMs
    this.#lastStreamMs = nowMs
    this.#pingedMs = nowMs
    this.#ageMs = times.ageMs * (0.9 + 0.2 * jitter)
    session.once('remoteSettings', () => (this.#hasBegun = true))
  }

  /** The unary calls in flight. */
  inFlight(): number {
    return this.#calls.size
  }

  addStream(stream: ServerHttp2Stream, nowMs: number, isUnary: boolean): void {
    this.#hasBegun = true
    this.#lastStreamMs = nowMs
    this.#streams++
    if (isUnary) this.#calls.set(stream, nowMs)
    stream.once('close', () => {
      this.#streams--
      this.#calls.delete(stream)
      if (this.#noticedMs !== undefined) this.closeIfUnread()
    })
  }

  /**
   * Announces that the connection ends. The client opens another one for its next calls, and what
   * it sends before it answers a ping is accepted, as long as Node reads it.
   */
  notify(nowMs: number): void {
    if (this.#noticedMs !== undefined || this.#session.destroyed) return
    this.#noticedMs = nowMs
    this.#session.goaway(constants.NGHTTP2_NO_ERROR, LAST_STREAM)
    this.#session.ping((error) => {
      if (error === null) this.close()
    })
    this.closeIfUnread()
  }

  /**
   * Node reads nothing more from a connection that is to end and has no stream. Closing it tells
   * the client at once which of its calls were not read, so that it may send them again.
   */
  private closeIfUnread(): void {
    if (this.#streams === 0) this.close()
  }

  /** Accepts no more streams, and closes the connection when the last one has ended. */
  close(): void {
    if (!this.#session.closed) this.#session.close()
  }

  destroy(): void {
    this.#session.destroy()
  }

  /** Ends what has lasted too long. Returns whether the client has stopped answering. */
  sweep(nowMs: number): 'stalled' | undefined {
    const { handshakeMs, idleMs } = this.#times
    const ageMs = nowMs - this.#startedMs
    if (!this.#hasBegun && ageMs > handshakeMs) this.destroy()
    this.endOldCalls(nowMs)
    const isIdle = this.#streams === 0 && nowMs - this.#lastStreamMs > idleMs
    if (isIdle || ageMs > this.#ageMs) this.notify(nowMs)
    this.continueClosing(nowMs)
    return this.ping(nowMs)
  }

  private endOldCalls(nowMs: number): void {
    for (const [stream, beganMs] of this.#calls) {
      if (nowMs - beganMs <= this.#times.callMs) return
      stream.close(constants.NGHTTP2_CANCEL)
    }
  }

  private continueClosing(nowMs: number): void {
    if (this.#noticedMs === undefined) return
    const noticedForMs = nowMs - this.#noticedMs
    if (noticedForMs > this.#times.noticeMs) this.close()
    if (noticedForMs > this.#times.closeMs) this.destroy()
  }

  private ping(nowMs: number): 'stalled' | undefined {
    const { pingMs, pingTimeoutMs } = this.#times
    const sinceMs = nowMs - this.#pingedMs
    if (this.#session.destroyed || !this.#hasBegun) return undefined
    if (this.#isPinging && sinceMs > pingTimeoutMs) {
      this.destroy()
      return 'stalled'
    }
    if (this.#isPinging || sinceMs <= pingMs) return undefined
    this.#pingedMs = nowMs
    this.#isPinging = this.#session.ping(() => (this.#isPinging = false))
    return undefined
  }
}

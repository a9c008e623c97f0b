/** Passes bytes of an open WebSocket in both directions, and counts messages of the client. */
import { randomBytes } from 'node:crypto'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { closeFrame, FrameScanner } from './websocket-frames.js'

export interface TunnelEnds {
  readonly client: Duplex
  readonly upstream: Duplex
}

/** Why a message is refused; undefined if it is not. */
export type MessageRefusal = string | undefined

export interface TunnelOptions {
  /** Called before a message passes; undefined while no rule counts messages. */
  readonly onMessage: () => Promise<MessageRefusal> | undefined
  readonly onEnd: () => void
}

const POLICY_VIOLATION = 1008
const GOING_AWAY = 1001
/** How long both ends may take for the close handshake before they are cut off. */
const CLOSE_TIMEOUT_MS = 1000
const KEEP_ALIVE_MS = 60_000
const HALF_OPEN_MS = 10_000

export class WebSocketTunnel {
  readonly #ends: TunnelEnds
  readonly #options: TunnelOptions
  readonly #fromClient = new FrameScanner()
  readonly #fromUpstream = new FrameScanner()
  /** The close frame for the client, until the current frame of the upstream has ended. */
  #closeFrame: Buffer | undefined
  /** Whether bytes arrived from either end since the last sweep. */
  #isActive = true
  #idleSweeps = 0
  #isDeciding = false
  #isClosing = false
  #isOver = false

  constructor(ends: TunnelEnds, options: TunnelOptions) {
    this.#ends = ends
    this.#options = options
  }

  /** `heads` are the bytes that arrived with the handshakes. */
  open(heads: { readonly client: Buffer; readonly upstream: Buffer }): void {
    const { client, upstream } = this.#ends
    if (heads.client.length > 0) client.unshift(heads.client)
    if (heads.upstream.length > 0) upstream.unshift(heads.upstream)
    client.on('data', (chunk: Buffer) => void this.fromClient(chunk))
    upstream.on('data', (chunk: Buffer) => this.fromUpstream(chunk))
    client.on('drain', () => upstream.resume())
    upstream.on('drain', () => this.resumeClient())
    client.on('end', () => {
      upstream.end()
      // An upstream that keeps sending without a client is cut off.
      setTimeout(() => this.destroy(), HALF_OPEN_MS).unref()
    })
    upstream.on('end', () => client.end())
    client.on('error', () => this.destroy())
    client.on('close', () => this.destroy())
    upstream.on('error', () => this.onUpstreamClosed())
    upstream.on('close', () => this.onUpstreamClosed())
    if (upstream instanceof Socket) upstream.setKeepAlive(true, KEEP_ALIVE_MS)
  }

  /** Sends close frames to both ends, as a server that stops should. */
  goAway(reason = 'going away'): void {
    const isWhole = this.#fromClient.isBetweenFrames && !this.#isDeciding
    this.close(GOING_AWAY, reason, isWhole)
  }

  /**
   * Called at regular intervals; closes the tunnel, and returns true, if nothing arrived from
   * either end during `sweepsMax` calls. It counts calls and not time, so that no tunnel is closed
   * because this process was suspended.
   */
  closeIfIdle(sweepsMax: number): boolean {
    this.#idleSweeps = this.#isActive ? 0 : this.#idleSweeps + 1
    this.#isActive = false
    if (this.#isClosing || this.#idleSweeps < sweepsMax) return false
    this.goAway('idle')
    return true
  }

  private async fromClient(chunk: Buffer): Promise<void> {
    this.#isActive = true
    let sent = 0
    let at = 0
    // While it closes, further bytes of the client are read and dropped.
    while (!this.#isClosing) {
      const found = this.#fromClient.next(chunk, at)
      if (found === undefined) break
      at = found.at
      const answer = found.frame.isMessage ? this.#options.onMessage() : undefined
      if (answer === undefined) continue
      // Bytes before this message may pass; the message itself waits for its decision.
      const start = Math.max(0, found.frame.start)
      this.toUpstream(chunk.subarray(sent, start))
      sent = start
      const refusal = await this.awaitDecision(answer)
      // The upstream has received nothing of this message unless its header arrived in two pieces.
      if (refusal !== undefined)
        return this.close(POLICY_VIOLATION, refusal, found.frame.start >= 0)
    }
    if (this.#isClosing) return
    this.toUpstream(chunk.subarray(sent))
    this.resumeClient()
  }

  /** The next chunk is not read before this message is decided. */
  private async awaitDecision(answer: Promise<MessageRefusal>): Promise<MessageRefusal> {
    this.#isDeciding = true
    this.#ends.client.pause()
    try {
      return await answer
    } finally {
      this.#isDeciding = false
    }
  }

  private resumeClient(): void {
    const { client, upstream } = this.#ends
    if (!this.#isDeciding && !upstream.writableNeedDrain) client.resume()
  }

  private toUpstream(chunk: Buffer): void {
    const { client, upstream } = this.#ends
    if (chunk.length > 0 && upstream.writable && !upstream.write(chunk)) client.pause()
  }

  private fromUpstream(chunk: Buffer): void {
    const { client, upstream } = this.#ends
    this.#isActive = true
    if (!client.writable) return
    if (this.#isClosing) return this.finishFrame(chunk)
    this.#fromUpstream.skip(chunk)
    if (!client.write(chunk)) upstream.pause()
  }

  /** `isWhole`: the bytes sent to the upstream end at the end of a frame. */
  private close(code: number, reason: string, isWhole: boolean): void {
    if (this.#isClosing) return
    this.#isClosing = true
    const { client, upstream } = this.#ends
    if (upstream.writable && isWhole) {
      upstream.write(closeFrame(GOING_AWAY, '', randomBytes(4)))
    }
    this.#closeFrame = closeFrame(code, reason)
    if (this.#fromUpstream.isBetweenFrames) this.sendCloseFrame()
    // Unread bytes of the client would reset the connection before it received the close frame.
    client.resume()
    upstream.resume()
    setTimeout(() => this.destroy(), CLOSE_TIMEOUT_MS)
  }

  /** Lets the current frame pass to its end: a close frame in the middle would corrupt it. */
  private finishFrame(chunk: Buffer): void {
    if (this.#closeFrame === undefined) return
    const end = this.#fromUpstream.endOfFrame(chunk)
    this.#ends.client.write(chunk.subarray(0, end))
    if (end < chunk.length || this.#fromUpstream.isBetweenFrames) this.sendCloseFrame()
  }

  private sendCloseFrame(): void {
    const { client, upstream } = this.#ends
    if (this.#closeFrame !== undefined && client.writable) client.end(this.#closeFrame)
    this.#closeFrame = undefined
    upstream.end()
  }

  private onUpstreamClosed(): void {
    const { client } = this.#ends
    if (this.#isClosing) return this.sendCloseFrame()
    // The last bytes of the upstream are still delivered.
    client.end()
    if (client.destroyed || client.writableLength === 0) this.destroy()
    else setTimeout(() => this.destroy(), CLOSE_TIMEOUT_MS)
  }

  private destroy(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#isClosing = true
    this.#ends.client.destroy()
    this.#ends.upstream.destroy()
    this.#options.onEnd()
  }
}

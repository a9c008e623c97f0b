import type { Socket } from 'node:net'
import type { Transport } from './output.js'

/** Sends to a socket, and reads no more from it while it does not take what is sent. */
export class SocketTransport implements Transport {
  readonly #socket: Socket
  /** TLS takes bytes later, so it gets a copy; the buffer of output is not lost each time. */
  readonly #copies: boolean
  #isBlocked = false
  #pauseTimer: NodeJS.Timeout | undefined
  /** What the socket had sent when that was last looked at, and when it last was more. */
  #sentBytes = 0
  #sentMs: number | undefined

  constructor(socket: Socket, copies: boolean) {
    this.#socket = socket
    this.#copies = copies
    socket.on('drain', () => {
      this.#isBlocked = false
      this.resume()
    })
  }

  get backlogBytes(): number {
    return this.#socket.writableLength
  }

  send(bytes: Buffer): boolean {
    const socket = this.#socket
    if (!socket.writable) return true
    if (this.#copies || socket.writableLength > 0) {
      this.write(Buffer.from(bytes))
      return true
    }
    this.write(bytes)
    return socket.writableLength === 0
  }

  end(): void {
    clearTimeout(this.#pauseTimer)
    // Unread bytes would make the kernel reset the connection, and drop what is on its way.
    this.#socket.resume()
    this.#socket.end()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  pauseFor(ms: number): void {
    this.#socket.pause()
    clearTimeout(this.#pauseTimer)
    this.#pauseTimer = setTimeout(() => {
      this.#pauseTimer = undefined
      this.resume()
    }, ms)
  }

  blockedMs(nowMs: number): number {
    const { bytesWritten, writableLength } = this.#socket
    const sentBytes = bytesWritten - writableLength
    if (writableLength === 0 || sentBytes !== this.#sentBytes) this.#sentMs = undefined
    this.#sentBytes = sentBytes
    if (writableLength === 0) return 0
    this.#sentMs ??= nowMs
    return nowMs - this.#sentMs
  }

  /** The socket is gone. */
  onClosed(): void {
    clearTimeout(this.#pauseTimer)
  }

  private write(bytes: Buffer): void {
    if (this.#socket.write(bytes)) return
    this.#isBlocked = true
    this.#socket.pause()
  }

  private resume(): void {
    if (!this.#isBlocked && this.#pauseTimer === undefined) this.#socket.resume()
  }
}

/**
 * Reads the body of a request before its call is decided, because the decision depends on it. What
 * was read is then forwarded unchanged, before the rest.
 */
import type { IncomingMessage } from 'node:http'
import type { PassThrough } from 'node:stream'
import { type BodyMemory, BUFFERED_BODY_MAX } from './body-memory.js'
import { Upload } from './upload.js'

export interface EarlyBodyOptions {
  readonly bodyMemory: BodyMemory
  /** The most bytes that are read. */
  readonly bytesMax: number
  /** How long the client may send nothing. */
  readonly stallMs: number
}

/** `slow`: the body came too slowly. `gone`: the client went away. */
export type UnreadBody = 'slow' | 'gone'

export class EarlyBody {
  /** Called once, if the rest of the body comes too slowly. */
  onSlow: () => void = () => {}
  /** The length of the body in bytes; Infinity if it is unknown. */
  readonly size: number
  /** Undefined: the request has no body. */
  readonly upload: Upload | undefined
  readonly #bodyMemory: BodyMemory
  /** Bytes of memory reserved for the body. */
  #reserved = 0
  #isWhole: boolean

  private constructor(request: IncomingMessage, { bodyMemory, stallMs }: EarlyBodyOptions) {
    const size = bodySize(request)
    this.size = size
    this.#bodyMemory = bodyMemory
    this.#isWhole = size === 0
    if (size === 0) return
    this.upload = new Upload(request, { size, stallMs, onSlow: () => this.onSlow() })
  }

  /** Reads a body as far as the bound and the memory of all bodies allow. */
  static async read(
    request: IncomingMessage,
    options: EarlyBodyOptions,
  ): Promise<EarlyBody | UnreadBody> {
    if (request.socket.destroyed) return 'gone'
    const body = new EarlyBody(request, options)
    const unread = await body.gather(request, Math.min(body.size, options.bytesMax))
    if (unread === undefined) return body
    body.discard()
    return unread
  }

  /** All of the body; undefined if it was not read to its end. */
  whole(): Buffer | undefined {
    return this.#isWhole ? (this.upload?.gathered() ?? NOTHING) : undefined
  }

  /**
   * The body for the upstream. A large one is a stream, whose memory is free once it was sent, not
   * only when the answer ends.
   */
  outgoing(): Buffer | PassThrough | null {
    if (this.upload === undefined) return null
    const isSmall = this.#isWhole && this.#reserved <= BUFFERED_BODY_MAX
    return isSmall ? this.upload.gathered() : this.upload.open()
  }

  /** Hands over the reserved bytes: the caller releases them. */
  takeReserved(): number {
    const reserved = this.#reserved
    this.#reserved = 0
    return reserved
  }

  /** The call is not forwarded. */
  discard(): void {
    this.upload?.stop()
    this.#bodyMemory.release(this.takeReserved())
  }

  private gather(request: IncomingMessage, bytes: number): Promise<UnreadBody | undefined> {
    const { upload } = this
    return new Promise((resolve) => {
      if (upload === undefined || !this.#bodyMemory.reserve(bytes)) return resolve(undefined)
      this.#reserved = bytes
      const onClose = () => end('gone')
      const end = (unread: UnreadBody | undefined) => {
        request.socket.off('close', onClose)
        resolve(unread)
      }
      request.socket.once('close', onClose)
      this.onSlow = () => end('slow')
      upload.gather(bytes, (isWhole) => {
        this.#isWhole = isWhole
        end(undefined)
      })
    })
  }
}

/** The length of the body in bytes; Infinity if it is unknown. */
export function bodySize({ headers }: IncomingMessage): number {
  if (headers['transfer-encoding'] !== undefined) return Number.POSITIVE_INFINITY
  const length = headers['content-length']
  return length === undefined ? 0 : Number(length)
}

const NOTHING = Buffer.alloc(0)

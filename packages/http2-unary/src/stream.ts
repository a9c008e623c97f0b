import type { UnaryCall, UnaryHandler } from './call.js'
import type { MessageReader } from './grpc/message-reader.js'
import type { RequestHead } from './request-head.js'
import type { Response } from './responses.js'

/** What the streams of one connection share. */
export interface StreamOwner {
  readonly remoteAddress: string
  /** The place of each name of metadata. */
  readonly metadataIndex: ReadonlyMap<string, number>
}

/** One call, from its headers until its answer is sent. It is also what its handler is given. */
export class UnaryStream implements UnaryCall {
  readonly #owner: StreamOwner
  readonly id: number
  readonly path: string
  readonly openedMs: number
  readonly handler: UnaryHandler | undefined
  readonly contentLength: number
  readonly #timeoutMs: number | undefined
  readonly #metadata: readonly (string | undefined)[] | undefined

  /** The answer to the headers, which is sent when the request has ended. */
  rejection: Response | undefined
  receivedBytes = 0
  receiveWindow: number
  /** Of a message that does not lie in one frame. */
  reader: MessageReader | undefined
  isRemoteClosed = false
  /** What the stream itself is counted as, until its handler has settled too. */
  ownBytes = 0
  /** Whether its handler has not settled. */
  isRunning = false
  isReset = false

  sendWindow: number
  /** What waits for a window, from `pendingAt` on. */
  pending: Buffer | undefined
  pendingAt = 0
  trailers: Buffer | undefined
  waitingSinceMs = 0

  constructor(
    owner: StreamOwner,
    id: number,
    head: RequestHead,
    handler: UnaryHandler | undefined,
    openedMs: number,
    windows: { readonly receive: number; readonly send: number },
  ) {
    this.#owner = owner
    this.id = id
    // Of an unknown method it is of no use, and the client chooses how long it is.
    this.path = handler === undefined ? '' : head.path
    this.contentLength = head.contentLength
    this.#timeoutMs = head.timeoutMs
    this.#metadata = head.metadata
    this.handler = handler
    this.openedMs = openedMs
    this.receiveWindow = windows.receive
    this.sendWindow = windows.send
  }

  get deadlineMs(): number | undefined {
    return this.#timeoutMs === undefined ? undefined : this.openedMs + this.#timeoutMs
  }

  get remoteAddress(): string {
    return this.#owner.remoteAddress
  }

  metadata(name: string): string | undefined {
    const index = this.#owner.metadataIndex.get(name)
    return index === undefined ? undefined : this.#metadata?.[index]
  }
}

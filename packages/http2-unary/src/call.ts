/** What a handler may know of its call beside the message. */
export interface UnaryCall {
  /** `/package.Service/Method`. */
  readonly path: string
  /** When the client gives up, on the timeline of `performance.now()`, if it said so. */
  readonly deadlineMs: number | undefined
  /** Empty for a socket of the file system. */
  readonly remoteAddress: string
  /** Whether nobody waits for the answer any more: the client reset the stream, or is gone. */
  readonly isReset: boolean
  /**
   * The value of a header that the option `metadata` names; several are joined by commas. Binary
   * ones (`-bin`) are in base64, as they were sent.
   */
  metadata(name: string): string | undefined
}

/**
 * Answers one call. The message is a view of what was read: a handler that keeps a part of it
 * copies that part.
 *
 * An answer that is returned is copied before the next call is handled, so a handler may use one
 * buffer for all. That of a promise must stay as it is.
 */
export type UnaryHandler = (message: Buffer, call: UnaryCall) => Uint8Array | Promise<Uint8Array>

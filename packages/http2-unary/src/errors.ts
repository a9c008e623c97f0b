import type { GrpcStatus } from './grpc/status.js'

/** What a handler throws, or rejects with, to answer with a status other than OK. */
export class GrpcStatusError extends Error {
  override readonly name = 'GrpcStatusError'
  readonly code: GrpcStatus

  /** The message is sent to the client as `grpc-message`, so it must hold nothing confidential. */
  constructor(code: GrpcStatus, message: string) {
    super(message)
    this.code = code
  }
}

/** Ends the connection with GOAWAY: what was received breaks HTTP/2, or is too much. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError'
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

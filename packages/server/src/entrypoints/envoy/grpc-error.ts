/** The status of a gRPC call that failed. */

/** Codes that this server sends itself. */
export const GRPC_CODES = {
  invalidArgument: 3,
  notFound: 5,
  resourceExhausted: 8,
  failedPrecondition: 9,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
} as const

export type GrpcCode = (typeof GRPC_CODES)[keyof typeof GRPC_CODES]

/** Ends a call with this status; the client receives the message. */
export class GrpcError extends Error {
  override readonly name = 'GrpcError'
  readonly grpcCode: GrpcCode

  constructor(grpcCode: GrpcCode, message: string) {
    super(message)
    this.grpcCode = grpcCode
  }
}

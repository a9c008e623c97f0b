/**
 * The methods of the gRPC server, from message bytes to message bytes. The table knows
 * nothing of HTTP/2, so that every transport serves the same methods.
 */
import type { ErrorReporter } from '../../http/error-reporter.js'
import { GRPC_CODES, GrpcError } from '../grpc-error.js'
import { ProtoError } from '../protobuf/proto-reader.js'
import { decodeRateLimitRequest, encodeRateLimitResponse } from '../protobuf/rate-limit-codec.js'
import type { QuotaService } from '../quota/quota-service.js'
import type { RateLimitOptions, RateLimitService } from '../rate-limit-service.js'
import type { StreamMethod } from './grpc-js-server.js'
import type { HealthService } from './health.js'

export interface UnaryMethod {
  /** The path of the request, which names service and method. */
  readonly path: string
  /** Resolves to the message of the response; fails with a GrpcError or an unexpected error. */
  call(message: Uint8Array, options: RateLimitOptions): Uint8Array | Promise<Uint8Array>
}

export const RATE_LIMIT_SERVICE = 'envoy.service.ratelimit.v3.RateLimitService'
export const SHOULD_RATE_LIMIT = `/${RATE_LIMIT_SERVICE}/ShouldRateLimit`
const STREAM_QUOTAS =
  '/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas'
const HEALTH_CHECK = '/grpc.health.v1.Health/Check'

export interface UnaryMethodDeps {
  readonly service: RateLimitService
  readonly health: HealthService
}

export function unaryMethods({ service, health }: UnaryMethodDeps): readonly UnaryMethod[] {
  return [
    {
      path: SHOULD_RATE_LIMIT,
      call(message, options) {
        const decided = service.shouldRateLimit(decodeRateLimitRequest(message), options)
        return decided instanceof Promise
          ? decided.then(encodeRateLimitResponse)
          : encodeRateLimitResponse(decided)
      },
    },
    { path: HEALTH_CHECK, call: (message) => health.check(message) },
  ]
}

/** Bucket assignments and usage reports, on a stream of each proxy. */
export function quotaMethod(quotas: QuotaService): StreamMethod {
  return { path: STREAM_QUOTAS, open: (client) => quotas.open(client) }
}

/** The status of a call that failed. */
export interface GrpcStatus {
  readonly code: number
  readonly details: string
}

/**
 * Turns any failure into a status. Bytes that are no message get INTERNAL, which gRPC prescribes
 * for them, so that a proxy between does not take them for a decision of the service. The message
 * of an unexpected error may contain anything, so only the log has it.
 */
export function statusOf(error: unknown, errorReporter: Pick<ErrorReporter, 'log'>): GrpcStatus {
  if (error instanceof GrpcError) return { code: error.grpcCode, details: error.message }
  if (error instanceof ProtoError) {
    return { code: GRPC_CODES.internal, details: `the request cannot be decoded: ${error.message}` }
  }
  errorReporter.log(error)
  return { code: GRPC_CODES.internal, details: 'internal error; see the server log' }
}

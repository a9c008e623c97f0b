/**
 * `/json` of envoyproxy/ratelimit: the rate limit service over HTTP/1.1, with the statuses and
 * bodies that its clients know. Who may call it is decided by the decision API, whose listener it
 * shares.
 */
import { decodeUtf8 } from '../http/body-bytes.js'
import type { ErrorReporter } from '../http/error-reporter.js'
import type { TextResponse } from '../http/responses.js'
import { GrpcError } from './grpc-error.js'
import {
  JsonMessageError,
  rateLimitResponseJson,
  readRateLimitRequest,
} from './protobuf/rate-limit-json.js'
import type { RateLimitRequest } from './rate-limit-messages.js'
import type { RateLimitService } from './rate-limit-service.js'

export interface JsonEndpointDeps {
  readonly service: RateLimitService
  readonly errorReporter: Pick<ErrorReporter, 'log'>
}

const JSON_TYPE = 'application/json'
const TEXT_TYPE = 'text/plain; charset=utf-8'
const BAD_REQUEST: TextResponse = { status: 400, contentType: TEXT_TYPE, body: 'Bad Request\n' }
const FAILED: TextResponse = {
  status: 500,
  contentType: TEXT_TYPE,
  body: 'Internal Server Error\n',
}

export class JsonEndpoint {
  readonly #deps: JsonEndpointDeps

  constructor(deps: JsonEndpointDeps) {
    this.#deps = deps
  }

  /**
   * Answers one request; never rejects. `forbidden`: the request gives back what callers used, and
   * its sender may not do that.
   */
  async answer(
    body: Buffer,
    { mayGiveBack }: { readonly mayGiveBack: boolean },
  ): Promise<TextResponse | 'forbidden'> {
    const { service, errorReporter } = this.#deps
    try {
      const request = readRequest(body)
      if (!mayGiveBack && request.descriptors.some(({ isNegativeHits }) => isNegativeHits)) {
        return 'forbidden'
      }
      const response = await service.shouldRateLimit(request, { timeoutMs: undefined })
      const status = response.overallCode === 'ok' ? 200 : 429
      const text = JSON.stringify(rateLimitResponseJson(response))
      return { status, contentType: JSON_TYPE, body: text }
    } catch (error) {
      if (error instanceof GrpcError || error instanceof JsonMessageError) return BAD_REQUEST
      errorReporter.log(error)
      return FAILED
    }
  }
}

function readRequest(body: Buffer): RateLimitRequest {
  const text = decodeUtf8(body)
  if (text === undefined) throw new JsonMessageError('the body is not UTF-8')
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    throw new JsonMessageError('the body is not JSON')
  }
  return readRateLimitRequest(json)
}

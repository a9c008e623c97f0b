/** Requests and responses of Node's HTTP server, for every adapter that ends in one. */
import type { FlatHeaders, HttpResponse } from '@sluice/core'
import { PROBLEM_TYPE } from '@sluice/core'
import type { HeldClient } from '../held-calls.js'
import type { RequestDecision } from './middleware-options.js'
import { endIfGone, type PeerSocket } from './peer-socket.js'
import { releaseOnClose } from './release-on-close.js'
import type { AdmittedRequest, LimitedRequest, RequestLimiter } from './request-limiter.js'

/** The part of Node's IncomingMessage that is read; requests of frameworks on Node have it too. */
export interface NodeRequest {
  readonly method?: string | undefined
  readonly url?: string | undefined
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly socket: PeerSocket
  /** The decision about this request. */
  sluice?: RequestDecision | undefined
}

/** The part of Node's ServerResponse that is used. */
export interface NodeResponse extends HeldClient {
  statusCode: number
  readonly headersSent: boolean
  getHeader(name: string): number | string | readonly string[] | undefined
  setHeader(name: string, value: string): unknown
  end(body?: string): unknown
}

/** A request of Node, described for `RequestLimiter`. */
export class NodeLimitedRequest<Request extends NodeRequest | object>
  implements LimitedRequest<Request>
{
  readonly request: Request
  readonly raw: NodeRequest
  readonly target: string
  readonly client: HeldClient

  /** `request` is what functions of the user get: `raw` itself, or the context of a framework. */
  constructor(request: Request, raw: NodeRequest, target: string, client: HeldClient) {
    this.request = request
    this.raw = raw
    this.target = target
    this.client = client
  }

  get method(): string {
    return this.raw.method ?? 'GET'
  }

  get context(): unknown {
    return undefined
  }

  peer(): string | undefined {
    return this.raw.socket.remoteAddress
  }

  endIfGone(): boolean {
    return endIfGone(this.raw.socket)
  }

  header(name: string): string | undefined {
    const value = this.raw.headers[name]
    return typeof value === 'object' ? value.join(', ') : value
  }
}

/** Sets headers, unless the response has begun: only then does setting one fail. */
export function setHeaders(response: NodeResponse, headers: FlatHeaders): void {
  try {
    for (let i = 0; i < headers.length; i += 2) {
      response.setHeader(headers[i] ?? '', headers[i + 1] ?? '')
    }
  } catch (error) {
    // Not asked before, because reading a property of a response of Express is slow.
    if (!response.headersSent) throw error
  }
}

/** Sets the status and the headers of a refusal. */
export function startRefusal(
  response: NodeResponse,
  { status, headers }: Pick<HttpResponse, 'status' | 'headers'>,
): void {
  response.statusCode = status
  setHeaders(response, headers)
}

/** Sends the body of a refusal that was started. */
export function endRefusal(response: NodeResponse, { body }: HttpResponse): void {
  response.setHeader('Content-Type', PROBLEM_TYPE)
  response.setHeader('Content-Length', String(Buffer.byteLength(body)))
  response.end(body)
}

/**
 * Settles an admitted request when its response has been sent, or its client has left. Called
 * before anything that may fail, so that the end of the request is seen in any case.
 */
export function settleOnClose<Request, Response>(
  limiter: Pick<RequestLimiter<Request, Response, unknown>, 'settle'>,
  admitted: AdmittedRequest,
  request: Request,
  response: Response,
  raw: NodeResponse,
): void {
  if (admitted.reservation !== undefined) {
    // A status that was sent is known, even if the client did not wait for the rest.
    raw.once('close', () => {
      const ending = raw.headersSent ? raw.statusCode : 'aborted'
      limiter.settle(admitted, ending, request, response)
    })
  }
  releaseOnClose(admitted, raw)
}

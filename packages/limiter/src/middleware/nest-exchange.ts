/** Requests and responses of Nest, whatever its platform and kind of context. */
import type { ExecutionContext } from '@nestjs/common'
import type { FlatHeaders, HttpResponse } from '@sluice/core'
import type { FastifyReply } from 'fastify'
import { sendProblem, setReplyHeaders } from './fastify-reply.js'
import { endRefusal, type NodeResponse, setHeaders } from './node-exchange.js'
import type { PeerSocket } from './peer-socket.js'
import type { RawRequest } from './routed-call.js'

/** What a guard works with; there is no `res` over WebSockets. */
export interface RequestResponse {
  readonly req: object
  readonly res: object | undefined
}

/** The fields that are read, of a request of Express or Fastify. */
interface PlatformRequest extends RawRequest {
  readonly raw?: PlatformRequest
  readonly method?: string
  readonly url?: string
  readonly originalUrl?: string
  readonly route?: { readonly path?: unknown }
  readonly routeOptions?: { readonly url?: string | undefined }
}

/** The fields that are read, of a client of Socket.IO or `ws`. */
interface SocketClient {
  /** Socket.IO keeps the request of the upgrade. */
  readonly request?: PlatformRequest
  /** `ws` keeps only the socket. */
  readonly _socket?: PeerSocket
}

interface GraphqlContext {
  readonly req?: object & { readonly res?: object }
  readonly request?: object
  readonly res?: object
  readonly reply?: object & { readonly request?: object }
}

/** What is described of a call for the limiter. */
export interface NestCallShape {
  readonly method: string
  readonly target: string
  readonly rawRequest: RawRequest
  readonly route: string | undefined
  /** What all guards of this call share, and no other call does. */
  readonly raw: object
}

/** Finds request and response of a context of HTTP, GraphQL or WebSockets. */
export function findRequestResponse(context: ExecutionContext): RequestResponse {
  const type = context.getType<string>()
  if (type === 'http') {
    const http = context.switchToHttp()
    return { req: http.getRequest<object>(), res: http.getResponse<object>() }
  }
  if (type === 'ws') return { req: context.switchToWs().getClient<object>(), res: undefined }
  if (type === 'graphql') {
    const { req, request, res, reply } = context.getArgByIndex<GraphqlContext>(2)
    const found = req ?? request ?? reply?.request
    if (found !== undefined) return { req: found, res: res ?? reply ?? req?.res }
  }
  throw new TypeError(
    `SluiceGuard: found no request in a context of type ${type}; override getRequestResponse`,
  )
}

export function describeCall(context: ExecutionContext, { req }: RequestResponse): NestCallShape {
  return context.getType<string>() === 'ws'
    ? describeMessage(context, req)
    : describeRequest(context, req)
}

function describeRequest(context: ExecutionContext, req: PlatformRequest): NestCallShape {
  const raw = req.raw ?? req
  const method = raw.method ?? 'GET'
  const isGraphql = context.getType<string>() === 'graphql'
  return {
    method,
    target: req.originalUrl ?? raw.url ?? '/',
    rawRequest: raw,
    route: isGraphql ? graphqlRoute(context) : httpRoute(req, method),
    // One request may call several resolvers, each of which counts.
    raw: isGraphql ? context : raw,
  }
}

/** A message has the path of its connection, and the method by which rules name messages. */
function describeMessage(context: ExecutionContext, client: SocketClient): NestCallShape {
  const { request, _socket: socket } = client
  const pattern: unknown = context.switchToWs().getPattern()
  return {
    method: 'MESSAGE',
    target: request?.url ?? '/',
    rawRequest: { headers: request?.headers, socket: request?.socket ?? socket },
    route: typeof pattern === 'string' ? `MESSAGE ${pattern}` : undefined,
    raw: context,
  }
}

function httpRoute({ route, routeOptions }: PlatformRequest, method: string): string | undefined {
  const path = routeOptions?.url ?? route?.path
  // As `routes` of a rule set name one: a route of GET also has its HEAD requests.
  return typeof path === 'string' ? `${method === 'HEAD' ? 'GET' : method} ${path}` : undefined
}

/** `Mutation.login`. */
function graphqlRoute(context: ExecutionContext): string | undefined {
  const info = context.getArgByIndex<{ parentType?: { name?: string }; fieldName?: string }>(3)
  const type = info?.parentType?.name
  return type === undefined ? undefined : `${type}.${info.fieldName}`
}

/** A response of Express, or a reply of Fastify. */
export type PlatformResponse = NodeResponse | FastifyReply

/** Undefined if the object is neither, as in a context that a user made. */
export function asResponse(res: object | undefined): PlatformResponse | undefined {
  if (res === undefined) return undefined
  const raw = 'raw' in res ? res.raw : res
  const isResponse = typeof (raw as Partial<NodeResponse> | undefined)?.setHeader === 'function'
  return isResponse ? (res as PlatformResponse) : undefined
}

/** The response of Node itself. */
export function rawResponse(res: PlatformResponse): NodeResponse {
  return isReply(res) ? res.raw : res
}

export function setPlatformHeaders(res: PlatformResponse, headers: FlatHeaders): void {
  if (isReply(res)) setReplyHeaders(res, headers)
  else setHeaders(res, headers)
}

export function setStatus(res: PlatformResponse, status: number): void {
  if (isReply(res)) res.code(status)
  else res.statusCode = status
}

/** Sends a refusal whose headers are set. */
export function respondProblem(res: PlatformResponse, response: HttpResponse): void {
  setStatus(res, response.status)
  if (isReply(res)) sendProblem(res, response)
  else endRefusal(res, response)
}

/** Whether a response was sent, or at least begun. */
export function isAnswered(res: PlatformResponse): boolean {
  return isReply(res) ? res.sent || res.raw.headersSent : res.headersSent
}

function isReply(res: PlatformResponse): res is FastifyReply {
  return 'raw' in res
}

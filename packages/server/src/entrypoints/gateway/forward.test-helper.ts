/** A real upstream and a real listener, with only the forwarder between them. */
import {
  createServer,
  type IncomingMessage,
  request as httpRequest,
  type RequestListener,
  type RequestOptions,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Pool } from 'undici'
import { expect, vi } from 'vitest'
import type { Upstream } from '../../config/config.js'
import { EarlyBody, type UnreadBody } from './early-body.js'
import { type ExchangeTap, forward, type UpstreamFailure } from './forward.js'
import type { BodyMemory } from './body-memory.js'
import { createUpstreams } from './upstreams.js'

const TIMEOUTS = {
  headersMs: 9000,
  requestMs: 300_000,
  connectMs: 2000,
  queueMs: 2000,
  responseMs: 2000,
  stallMs: 2000,
  websocketIdleMs: 60_000,
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
}

export interface Front {
  readonly port: number
  readonly failures: UpstreamFailure[]
  /** Calls whose body arrived too slowly. */
  readonly slowUploads: () => number
  /** The memory reserved for bodies. */
  readonly gathered: BodyMemory
  /** Exchanges that have ended. */
  readonly ended: () => number
  readonly inFlight: () => number
  close(): Promise<void>
}

export async function startFront(
  handler: RequestListener,
  more: {
    readonly upstream?: Partial<Upstream>
    readonly timeouts?: Partial<typeof TIMEOUTS>
    /** Replaces undici. */
    readonly dispatch?: Pool['dispatch']
    readonly tap?: ExchangeTap
    /** How many bytes of a body are read before the call is forwarded. */
    readonly earlyBytes?: number
    /** Called with each body that was read early. */
    readonly onBody?: (body: EarlyBody | UnreadBody) => void
  } = {},
): Promise<Front> {
  const upstreamServer = createServer(handler)
  const origin = `http://127.0.0.1:${await listen(upstreamServer)}`
  const upstream = {
    prefix: '/',
    origin,
    host: 'preserve',
    connections: 16,
    websockets: 16,
    usage: undefined,
    ...more.upstream,
  } as const
  const upstreams = createUpstreams([upstream], { ...TIMEOUTS, ...more.timeouts })
  const failures: UpstreamFailure[] = []
  let ended = 0
  let slowUploads = 0
  const target = upstreams.find('/')
  if (target === undefined) throw new Error('no target')
  if (more.dispatch !== undefined) target.pool.dispatch = more.dispatch
  const forwardCall = (request: IncomingMessage, response: ServerResponse, body?: EarlyBody) =>
    forward({
      request,
      response,
      target,
      body,
      tap: more.tap,
      path: request.url ?? '/',
      headers: request.rawHeaders.filter((_, index, raw) => {
        const name = (raw[index - (index % 2)] ?? '').toLowerCase()
        return !['connection', 'transfer-encoding', 'expect'].includes(name)
      }),
      rateLimitHeaders: ['RateLimit', '"a";r=1'],
      failureHeaders: ['RateLimit', '"a";r=1'],
      timeouts: { ...TIMEOUTS, ...more.timeouts },
      onEnd: (failure) => {
        ended++
        if (failure !== undefined) failures.push(failure)
      },
      onSlowUpload: () => slowUploads++,
    })
  const forwardEarly = async (
    request: IncomingMessage,
    response: ServerResponse,
    bytesMax: number,
  ) => {
    const stallMs = more.timeouts?.stallMs ?? TIMEOUTS.stallMs
    const { bodyMemory } = target
    const body = await EarlyBody.read(request, { bodyMemory, bytesMax, stallMs })
    more.onBody?.(body)
    if (body instanceof EarlyBody) forwardCall(request, response, body)
  }
  const front = createServer((request, response) => {
    const { earlyBytes } = more
    if (earlyBytes === undefined) forwardCall(request, response)
    else void forwardEarly(request, response, earlyBytes)
  })
  // Like the listener: each pipelined call of a client listens for the end.
  front.on('connection', (socket) => socket.setMaxListeners(0))
  const port = await listen(front)
  return {
    port,
    failures,
    ended: () => ended,
    slowUploads: () => slowUploads,
    gathered: target.bodyMemory,
    inFlight: () => target.inFlight,
    async close() {
      front.closeAllConnections()
      upstreamServer.closeAllConnections()
      await Promise.all([
        upstreams.close(),
        new Promise((resolve) => front.close(resolve)),
        new Promise((resolve) => upstreamServer.close(resolve)),
      ])
    },
  }
}

/** Closes the front. Whatever became of the calls, no memory stays reserved for their bodies. */
export async function closeReleased(front: Front | undefined): Promise<void> {
  await vi.waitUntil(() => front === undefined || front.inFlight() === 0, {
    timeout: 20_000,
    interval: 10,
  })
  const used = front?.gathered.used()
  await front?.close()
  expect(used ?? 0).toBe(0)
}

export interface ForwardResponse {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly rawHeaders: readonly string[]
  readonly trailers: IncomingMessage['trailers']
  readonly body: Buffer
  /** The body broke off. */
  readonly isCut: boolean
}

export function sendRequest(
  port: number,
  options: RequestOptions,
  body?: Buffer | string,
): Promise<ForwardResponse> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host: '127.0.0.1', port, agent: false, ...options })
    request.on('error', reject)
    request.on('response', (response) => {
      const chunks: Buffer[] = []
      const end = (isCut: boolean) =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          rawHeaders: response.rawHeaders,
          trailers: response.trailers,
          body: Buffer.concat(chunks),
          isCut,
        })
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => end(false))
      response.on('error', () => end(true))
    })
    request.end(body)
  })
}

/** WebSocket upgrades: admits the upgrade like any call, then opens a tunnel to the upstream. */
import { type ClientRequest, type IncomingMessage, request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type Call, canonicalPath, closeReason, MESSAGE } from '@sluice/core'
import { guardedLookup } from '../../lib/guarded-lookup.js'
import {
  type FlatHeaders,
  headText,
  type HttpProblem,
  type HttpResponse,
  problemResponse,
  responseText,
} from '../http/responses.js'
import { findRequestProblem } from '../http/strict-request.js'
import { originForm } from '../http/request-target.js'
import type { RequestTrace } from '../../observability/tracing/telemetry.js'
import type { UpstreamFailure } from './forward.js'
import type { ForwardedCall, Gateway } from './gateway.js'
import { isReservedPath } from './limits-page.js'
import { readResponseHead } from './response-headers.js'
import { type MessageRefusal, WebSocketTunnel } from './websocket-tunnel.js'

export class Upgrades {
  readonly #gateway: Gateway
  readonly #open = new Set<WebSocketTunnel>()
  readonly #counts = { refused: 0, idle: 0 }
  /** Closes idle tunnels; runs while any tunnel is open. */
  #sweeper: NodeJS.Timeout | undefined
  /** Sockets that their tunnel closes. */
  readonly #tunnelled = new WeakSet<Duplex>()
  #isGoingAway = false

  constructor(gateway: Gateway) {
    this.#gateway = gateway
  }

  count(): number {
    return this.#open.size
  }

  counts(): WebSocketCounts {
    return { ...this.#counts }
  }

  goAway(): void {
    this.#isGoingAway = true
    for (const tunnel of this.#open) tunnel.goAway()
  }

  /** Answers one upgrade; never rejects. */
  async handle(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on('error', () => socket.destroy())
    // The socket would stay open for writing after its client has ended.
    socket.once('end', () => {
      if (!this.#tunnelled.has(socket)) socket.destroy()
    })
    try {
      await this.serve(request, socket, head)
    } catch (error) {
      sendProblem(socket, this.#gateway.errorReporter.problemOf(error))
    }
  }

  private async serve(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    if (socket.destroyed) return
    if (this.#gateway.isDistrusted(socket)) return
    const problem = findRequestProblem(request) ?? findUpgradeProblem(request)
    if (problem !== undefined) return sendProblem(socket, problem)
    const found = canonicalPath(request.url ?? '')
    if (!found.ok || isReservedPath(found.path)) {
      const detail = found.ok ? 'No WebSocket is served here.' : `path: ${found.reason}`
      return sendProblem(socket, { status: found.ok ? 404 : 400, detail })
    }
    const traced = this.#gateway.deps.telemetry?.begin(request)
    try {
      await this.admit({ request, socket, head, traced }, found.path)
    } finally {
      // Traces only the upgrade: a tunnel may stay open for days.
      traced?.end(undefined)
    }
  }

  private async admit(client: UpgradeClient, path: string): Promise<void> {
    const { request, socket, traced } = client
    const admitted = await this.#gateway.admit(request, { method: 'GET', path, traced })
    if (socket.destroyed) return this.#gateway.abandon(admitted)
    if (admitted.refusal !== undefined) return sendResponse(socket, admitted.refusal)
    const { decision, target } = admitted
    // A WebSocket is in flight until its connection ends.
    if (decision.release !== undefined) socket.once('close', decision.release)
    if (decision.delayMs > 0 && !(await this.#gateway.hold(socket, decision))) return
    if (socket.destroyed) return
    if (target.websockets >= target.upstream.websockets) return this.refuse(client, admitted)
    this.connect(client, admitted)
  }

  /** Refuses an upgrade beyond the WebSocket limit of the upstream. */
  private refuse({ request, socket }: UpgradeClient, { headers, target }: ForwardedCall): void {
    this.#counts.refused++
    this.#gateway.recordUpstreamCall(target)
    this.#gateway.recordUpstreamEnd(target, { status: 503, code: 'UPSTREAM_WEBSOCKETS' }, request)
    sendProblem(socket, {
      status: 503,
      detail: 'Too many WebSockets are open to the upstream.',
      error: 'upstream_failed',
      headers: ['Retry-After', '1', ...headers],
    })
  }

  private connect(client: UpgradeClient, admitted: ForwardedCall): void {
    const { socket } = client
    const { target, call, headers: rateLimitHeaders } = admitted
    const { responseMs, stallMs } = this.#gateway.deps.config.gateway.timeouts
    this.#gateway.recordUpstreamCall(admitted.target)
    const outgoing = this.open(client, admitted)
    // Released when the connection to the upstream ends.
    target.websockets++
    const release = () => target.websockets--
    let hasAnswer = false
    let isTunnel = false
    let failure: UpstreamFailure = { status: 502, code: 'UPGRADE_FAILED' }
    const abort = () => outgoing.destroy()
    const timer = setTimeout(() => {
      failure = { status: 504, code: 'UPGRADE_TIMEOUT' }
      outgoing.destroy(new Error('The upstream is late'))
    }, responseMs)
    const onUpstreamEvent = () => {
      clearTimeout(timer)
      socket.off('close', abort)
    }
    socket.once('close', abort)
    outgoing.once('upgrade', (response, upstream, upstreamHead) => {
      onUpstreamEvent()
      upstream.on('error', () => upstream.destroy())
      if (socket.destroyed || socket.readableEnded) {
        socket.destroy()
        return void upstream.destroy()
      }
      const { headers } = readResponseHead(101, response.rawHeaders, rateLimitHeaders, false)
      const upgrade = ['Connection', 'Upgrade', 'Upgrade', 'websocket']
      socket.write(headText(101, [...upgrade, ...headers]), 'latin1')
      const heads = { client: client.head, upstream: upstreamHead }
      isTunnel = true
      this.tunnel({ client: socket, upstream }, heads, { call, traced: client.traced, release })
    })
    outgoing.once('close', () => {
      if (!isTunnel) release()
    })
    outgoing.once('response', (response) => {
      onUpstreamEvent()
      hasAnswer = true
      relayResponse(response, socket, rateLimitHeaders, stallMs)
    })
    outgoing.on('error', () => {
      onUpstreamEvent()
      // A response that has started is aborted.
      if (hasAnswer) return reset(socket)
      // The client left: not a failure of the upstream.
      if (socket.destroyed) return
      this.#gateway.recordUpstreamEnd(admitted.target, failure, client.request)
      const { status } = failure
      const detail = 'The upstream could not be reached, broke off or timed out.'
      sendProblem(socket, { status, detail, error: 'upstream_failed', headers: rateLimitHeaders })
    })
    outgoing.end()
  }

  private open({ request, traced }: UpgradeClient, admitted: ForwardedCall): ClientRequest {
    const { target } = admitted
    const context = this.#gateway.headerContext(request, admitted)
    const flat = this.#gateway.upstreamHeaders(request, context, traced)
    const { hostname, port, protocol } = new URL(target.upstream.origin)
    const send = protocol === 'https:' ? httpsRequest : httpRequest
    return send({
      hostname: hostname.replace(/^\[|\]$/g, ''),
      port,
      path: originForm(request.url ?? '/'),
      method: 'GET',
      headers: [...flat, 'connection', 'Upgrade', 'upgrade', 'websocket'],
      agent: false,
      lookup: guardedLookup,
      ...(target.servername !== undefined && { servername: target.servername }),
    })
  }

  private tunnel(
    ends: { readonly client: Duplex; readonly upstream: Duplex },
    heads: { readonly client: Buffer; readonly upstream: Buffer },
    { call, traced, release }: TunnelContext,
  ): void {
    const message = { attributes: { ...call.attributes, method: MESSAGE } }
    const tunnel = new WebSocketTunnel(ends, {
      onMessage: () => this.decideMessage(message, traced),
      onEnd: () => {
        this.#open.delete(tunnel)
        if (this.#open.size === 0) this.stopSweeping()
        release()
      },
    })
    this.#tunnelled.add(ends.client)
    this.#open.add(tunnel)
    this.startSweeping()
    tunnel.open(heads)
    if (this.#isGoingAway) tunnel.goAway()
  }

  private startSweeping(): void {
    if (this.#sweeper !== undefined) return
    const { websocketIdleMs } = this.#gateway.deps.config.gateway.timeouts
    this.#sweeper = setInterval(() => this.sweep(), websocketIdleMs / IDLE_SWEEPS)
    this.#sweeper.unref()
  }

  private stopSweeping(): void {
    clearInterval(this.#sweeper)
    this.#sweeper = undefined
  }

  private sweep(): void {
    for (const tunnel of this.#open) if (tunnel.closeIfIdle(IDLE_SWEEPS)) this.#counts.idle++
  }

  /** Undefined, so that messages pass without delay, while no rule counts messages. */
  private decideMessage(
    message: Call,
    traced: RequestTrace | undefined,
  ): Promise<MessageRefusal> | undefined {
    if (!this.#gateway.deps.decider.limiter.countsMessages) return undefined
    return this.checkMessage(message, traced)
  }

  private async checkMessage(
    message: Call,
    traced: RequestTrace | undefined,
  ): Promise<MessageRefusal> {
    const { decider } = this.#gateway.deps
    try {
      const decision = await decider.check(message, 'websocket', { canWait: false }, traced)
      return decision.allowed ? undefined : closeReason(decision)
    } catch (error) {
      this.#gateway.errorReporter.log(error)
      return 'Not decided'
    }
  }
}

/** An idle tunnel is closed after the timeout, at most a tenth of it later. */
const IDLE_SWEEPS = 10
const LINGER_MS = 1000

export interface WebSocketCounts {
  /** Upgrades beyond the limit of an upstream. */
  readonly refused: number
  /** Tunnels closed because they were idle. */
  readonly idle: number
}

interface TunnelContext {
  readonly call: Call
  readonly traced: RequestTrace | undefined
  readonly release: () => void
}

interface UpgradeClient {
  readonly request: IncomingMessage
  readonly socket: Duplex
  readonly head: Buffer
  readonly traced: RequestTrace | undefined
}

/** Only WebSockets are tunnelled: other protocols would carry calls that are not counted. */
function findUpgradeProblem(request: IncomingMessage): HttpProblem | undefined {
  const { headers, method, httpVersion } = request
  if (headers.upgrade?.toLowerCase() !== 'websocket' || method !== 'GET' || httpVersion !== '1.1') {
    return { status: 400, detail: 'Only WebSocket upgrades are supported: GET, HTTP/1.1.' }
  }
  if (headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined) {
    return { status: 400, detail: 'An upgrade request must not have a body.' }
  }
  return undefined
}

function sendProblem(socket: Duplex, problem: HttpProblem): void {
  sendResponse(socket, problemResponse(problem))
}

function sendResponse(socket: Duplex, response: HttpResponse): void {
  if (socket.writable) endWithLinger(socket, responseText(response))
}

/** Sends the response of an upstream that refused the upgrade. */
function relayResponse(
  response: IncomingMessage,
  socket: Duplex,
  rateLimitHeaders: FlatHeaders,
  stallMs: number,
): void {
  const status = response.statusCode ?? 502
  const { headers } = readResponseHead(status, response.rawHeaders, rateLimitHeaders, false)
  socket.write(headText(status, [...headers, 'Connection', 'close']), 'latin1')
  response.pipe(socket, { end: false })
  response.once('end', () => endWithLinger(socket))
  response.once('error', () => reset(socket))
  socket.once('close', () => response.destroy())
  if (socket instanceof Socket) socket.setTimeout(stallMs, () => socket.destroy())
}

/** Resets the connection: without a length, a normal close would end the body as complete. */
function reset(socket: Duplex): void {
  if (socket instanceof Socket) socket.resetAndDestroy()
  else socket.destroy()
}

/** Drops what the client still sends for a moment, then destroys the connection. */
function endWithLinger(socket: Duplex, body = ''): void {
  socket.resume()
  socket.end(body)
  const timer = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
}

/** `@sluice/limiter/ws`: limits the upgrades and the messages of WebSockets of `ws`. */
import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type Call, closeReason, type Decision, MESSAGE } from '@sluice/core'
import type { Awaitable, MiddlewareOptions } from './middleware-options.js'
import { type MiddlewareHandle, withHandle } from './middleware-handle.js'
import { endRefusal, NodeLimitedRequest, startRefusal } from './node-exchange.js'
import { releaseOnClose } from './release-on-close.js'
import {
  type Admission,
  type AdmittedRequest,
  chain,
  failureResponse,
  type RefusedRequest,
  RequestLimiter,
} from './request-limiter.js'

/** The request of an upgrade, with the decision about it. */
export type UpgradeRequest = IncomingMessage & { sluice?: Decision | undefined }

export type WsOptions = MiddlewareOptions<UpgradeRequest, ServerResponse>

/** The part of a WebSocket of `ws` that is used. */
export interface LimitedSocket {
  close(code: number, reason: string): void
  pause(): void
  resume(): void
}

/** The part of a WebSocketServer of `ws` that is used; create it with `noServer: true`. */
export interface UpgradeServer<WebSocket> {
  on(event: 'headers', listener: (headers: string[], request: IncomingMessage) => void): unknown
  handleUpgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    done: (socket: WebSocket) => void,
  ): void
  emit(event: 'connection', socket: WebSocket, request: IncomingMessage): unknown
}

export interface WsLimiter extends MiddlewareHandle {
  /** Returns a listener of `upgrade` that lets only admitted upgrades through to the server. */
  upgrade<WebSocket>(
    server: UpgradeServer<WebSocket>,
  ): (request: IncomingMessage, socket: Duplex, head: Buffer) => void
  /**
   * Returns a listener of `message` that counts each message, as a call of the method `MESSAGE`
   * with the attributes and the cost of the upgrade, and closes the WebSocket with 1008 if one is
   * refused. Whether messages are skipped is asked once, with the upgrade.
   */
  message<Data extends readonly unknown[]>(
    socket: LimitedSocket,
    request: IncomingMessage,
    handler: (...data: Data) => void,
  ): (...data: Data) => void
}

const POLICY_VIOLATION = 1008

/**
 * Creates a limiter for WebSockets.
 *
 * @example
 * const limited = sluice({ rules })
 * server.on('upgrade', limited.upgrade(webSockets))
 * webSockets.on('connection', (socket, request) => {
 *   socket.on('message', limited.message(socket, request, (data) => socket.send(data)))
 * })
 *
 * @throws RulesError if a rule is invalid; SluiceError if an option is
 */
export function sluice(options: WsOptions): WsLimiter {
  const requests = new RequestLimiter<UpgradeRequest, ServerResponse>(options, {
    isSocketKnown: true,
  })
  return withHandle(
    {
      upgrade: <WebSocket>(server: UpgradeServer<WebSocket>) =>
        new Upgrades(requests, options, server).listener,
      message: <Data extends readonly unknown[]>(
        socket: LimitedSocket,
        request: IncomingMessage,
        handler: (...data: Data) => void,
      ) => {
        const messages = new Messages(requests, socket, request)
        return (...data: Data) => messages.receive(() => handler(...data))
      },
    },
    requests,
  )
}

type WsRequests = RequestLimiter<UpgradeRequest, ServerResponse>

class Upgrades<WebSocket> {
  readonly #requests: WsRequests
  readonly #onRefused: WsOptions['onRefused']
  readonly #server: UpgradeServer<WebSocket>
  /** The rate limit headers of responses that switch protocols, as lines. */
  readonly #headers = new WeakMap<IncomingMessage, readonly string[]>()
  readonly listener = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    void this.handle(request, socket, head)
  }

  constructor(requests: WsRequests, { onRefused }: WsOptions, server: UpgradeServer<WebSocket>) {
    this.#requests = requests
    this.#onRefused = onRefused
    this.#server = server
    server.on('headers', (lines, request) => lines.push(...(this.#headers.get(request) ?? [])))
  }

  /** Never rejects. */
  private async handle(request: UpgradeRequest, socket: Duplex, head: Buffer): Promise<void> {
    const response = responseOn(socket, request)
    const onError = () => socket.destroy()
    socket.on('error', onError)
    try {
      const limited = new NodeLimitedRequest(request, request, request.url ?? '', response)
      const admission = await this.#requests.admit(limited)
      // A WebSocket is in flight until its connection ends.
      if (admission.kind === 'admitted') releaseOnClose(admission, socket)
      if (admission.kind !== 'abandoned') request.sluice = admission.decision
      if (socket.destroyed || admission.kind === 'abandoned') return void socket.destroy()
      if (admission.kind === 'refused') return await this.refuse(admission, request, response)
      response.detachSocket(socket as Socket)
      socket.off('error', onError)
      this.accept(admission, request, socket, head, response)
    } catch (error) {
      this.#requests.logError('upgrade failed', error)
      // A response that was detached from its socket reaches no client.
      if (response.headersSent || response.socket === null) return void socket.destroy()
      const failure = failureResponse()
      startRefusal(response, failure)
      endRefusal(response, failure)
    }
  }

  private accept(
    admitted: AdmittedRequest,
    request: UpgradeRequest,
    socket: Duplex,
    head: Buffer,
    response: ServerResponse,
  ): void {
    const { headers } = admitted
    const lines: string[] = []
    for (let i = 0; i < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`)
    this.#headers.set(request, lines)
    this.#server.handleUpgrade(request, socket, head, (webSocket) => {
      response.statusCode = 101
      this.#requests.settle(admitted, 101, request, response)
      this.#server.emit('connection', webSocket, request)
    })
  }

  private async refuse(
    { response: refusal, decision }: RefusedRequest,
    request: UpgradeRequest,
    response: ServerResponse,
  ): Promise<void> {
    startRefusal(response, refusal)
    if (this.#onRefused === undefined || decision === undefined) {
      return endRefusal(response, refusal)
    }
    await this.#onRefused(request, response, decision)
  }
}

/** A response to an upgrade, after which the connection ends. */
function responseOn(socket: Duplex, request: IncomingMessage): ServerResponse {
  const response = new ServerResponse(request)
  response.shouldKeepAlive = false
  response.assignSocket(socket as Socket)
  // The socket of an upgrade is open until both sides have ended, and bytes of the client that
  // are not read would keep it so.
  response.once('finish', () => socket.resume().end(() => socket.destroy()))
  return response
}

/** Counts the messages of one WebSocket, in order. */
class Messages {
  readonly #requests: WsRequests
  readonly #socket: LimitedSocket
  readonly #request: IncomingMessage
  /** What all messages have in common: their call, or that they are skipped. */
  #call: Call | AdmittedRequest | undefined
  /** The last decision that is waited for; undefined while none is. */
  #last: Promise<void> | undefined
  #isClosed = false

  constructor(requests: WsRequests, socket: LimitedSocket, request: IncomingMessage) {
    this.#requests = requests
    this.#socket = socket
    this.#request = request
  }

  receive(deliver: () => void): void {
    if (this.#isClosed) return
    if (this.#last !== undefined) {
      return this.wait(this.#last.then(async () => this.finish(await this.admit(), deliver)))
    }
    const admitting = this.tryAdmit()
    if (admitting === undefined) return
    if (!(admitting instanceof Promise)) return this.finish(admitting, deliver)
    this.wait(admitting.then((admission) => this.finish(admission, deliver)))
  }

  /** Undefined if a function of the user threw, which closes the WebSocket. */
  private tryAdmit(): Awaitable<Admission> | undefined {
    try {
      return this.admit()
    } catch (error) {
      this.fail(error)
      return undefined
    }
  }

  private admit(): Awaitable<Admission> {
    if (this.#call !== undefined) return this.admitCall(this.#call)
    const { url = '' } = this.#request
    const limited = new NodeLimitedRequest(this.#request, this.#request, url, NO_CLIENT)
    return chain(this.#requests.readCall(limited), (read) => {
      if ('kind' in read && read.kind !== 'admitted') return read
      this.#call =
        'kind' in read ? read : { ...read, attributes: { ...read.attributes, method: MESSAGE } }
      return this.admitCall(this.#call)
    })
  }

  private admitCall(call: Call | AdmittedRequest): Awaitable<Admission> {
    return 'kind' in call ? call : this.#requests.admitCall(call, this.#request)
  }

  /** Reads nothing more from the client until its messages are decided. */
  private wait(deciding: Promise<void>): void {
    this.#socket.pause()
    const last = deciding
      .catch((error) => this.fail(error))
      .then(() => {
        if (this.#last !== last) return
        this.#last = undefined
        if (!this.#isClosed) this.#socket.resume()
      })
    this.#last = last
  }

  private finish(admission: Admission, deliver: () => void): void {
    if (this.#isClosed) return
    if (admission.kind === 'admitted') return deliver()
    const decision = admission.kind === 'refused' ? admission.decision : undefined
    this.close(decision === undefined ? 'Not decided' : closeReason(decision))
  }

  private fail(error: unknown): void {
    this.#requests.logError('message not decided', error)
    this.close('Not decided')
  }

  private close(reason: string): void {
    this.#isClosed = true
    this.#socket.close(POLICY_VIOLATION, reason)
    // The close frame of the client has to be read.
    this.#socket.resume()
  }
}

/** Messages are not held. */
const NO_CLIENT = { destroyed: false, once: () => {}, off: () => {} }

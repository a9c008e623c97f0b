/** The gateway: admits each call, then forwards it to its upstream. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { canonicalPath, type Decision } from '@sluice/core'
import { createHeldCalls, type HeldCalls } from '@sluice/limiter/internal'
import type { WallClock } from '../../lib/wall-clock.js'
import {
  Admission,
  type AdmissionDeps,
  type AdmissionResult,
  type AdmittedCall,
  type RequestedCall,
} from '../admission.js'
import {
  type FlatHeaders,
  type HttpProblem,
  type HttpResponse,
  problemResponse,
  send,
  sendProblem,
} from '../http/responses.js'
import { ErrorReporter } from '../http/error-reporter.js'
import { originForm } from '../http/request-target.js'
import { limitUnreadBody } from '../http/unread-body.js'
import { findRequestProblem } from '../http/strict-request.js'
import { type Identity, refusalOfIdentity } from '../../identity/identify.js'
import type { Log } from '../../observability/log/logger.js'
import type { Telemetry, RequestTrace } from '../../observability/tracing/telemetry.js'
import { withCors } from './cors.js'
import { forward, type ForwardOptions, type UpstreamFailure } from './forward.js'
import { isReservedPath, type LimitsPage } from './limits-page.js'
import {
  createHeaderWriter,
  type HeaderWriter,
  type UpstreamHeaderContext,
} from './request-headers.js'
import { sendContinue } from './upload.js'
import type { Target, Upstreams } from './upstreams.js'
import { MeteredRequests } from './usage/metered-requests.js'
import type { Metering } from './usage/metering.js'

export interface GatewayDeps extends Omit<AdmissionDeps, 'errorReporter'> {
  readonly upstreams: Upstreams
  readonly limitsPage: LimitsPage
  /** Undefined: no upstream has usage. */
  readonly metering?: Metering | undefined
  readonly clock: WallClock
  readonly log: Log
  /** Called with the origin of the upstream before a call is sent to it. */
  readonly onUpstreamCall?: ((upstream: string) => void) | undefined
  /** Called with the origin of an upstream that did not answer a call. */
  readonly onUpstreamFailure: (failure: UpstreamFailure, upstream: string) => void
  /** Called for each call that fails because its body arrives too slowly. */
  readonly onSlowUpload: () => void
  /** Undefined: no spans. */
  readonly telemetry?: Telemetry | undefined
}

/** A request that is being answered. */
export interface GatewayRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly requested: RequestedCall
}

/** An admitted call with the upstream that serves it. */
export interface ForwardedCall extends AdmittedCall {
  readonly target: Target
}

export type GatewayAdmission = ForwardedCall | Extract<AdmissionResult, { refusal: HttpResponse }>

function isDelayed(admission: GatewayAdmission): boolean {
  return admission.refusal === undefined && admission.decision.delayMs > 0
}

/** Serves requests, and shares admission and header rules with upgrades. */
export class Gateway {
  readonly deps: GatewayDeps
  readonly heldCalls: HeldCalls
  readonly headerWriter: HeaderWriter
  readonly proto: 'http' | 'https'
  readonly errorReporter: ErrorReporter
  readonly #admission: Admission
  readonly #meteredRequests: MeteredRequests | undefined
  /**
   * Places for calls that may be delayed and are not held yet: those whose decision is pending, and
   * delayed ones until `hold` or `abandon`. With a remote store many are decided at one time.
   */
  #reserved = 0
  /** Connections that sent an ambiguous request: nothing more is served on them. */
  readonly #distrusted = new WeakSet<Duplex>()

  constructor(deps: GatewayDeps) {
    const { identity, gateway } = deps.config
    this.deps = deps
    this.heldCalls = createHeldCalls(gateway.maxHeld)
    this.errorReporter = new ErrorReporter({ ...deps, component: 'gateway' })
    this.#admission = new Admission(
      { ...deps, errorReporter: this.errorReporter },
      { entryPoint: 'gateway', sendsHeaders: gateway.headers },
    )
    if (deps.metering !== undefined) {
      this.#meteredRequests = new MeteredRequests(this, deps.metering)
    }
    this.proto = gateway.tls === undefined ? 'http' : 'https'
    const proxyHeaders = Object.values(identity.proxyHeaders).filter((name) => name !== undefined)
    this.headerWriter = createHeaderWriter({
      proxyHeaders,
      identityHeaders: [
        identity.apiKey.header,
        identity.jwt?.header ?? 'authorization',
        ...identity.headers.map(({ header }) => header),
      ],
    })
  }

  /** Answers one request; never rejects. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await this.serve(request, response)
    } catch (error) {
      const problem = this.errorReporter.problemOf(error)
      if (response.headersSent) response.destroy()
      else sendProblem(response, problem)
    }
  }

  private serve(request: IncomingMessage, response: ServerResponse): void | Promise<void> {
    if (this.isDistrusted(request.socket)) return
    const problem = findRequestProblem(request)
    if (problem !== undefined) {
      this.#distrusted.add(request.socket)
      return sendProblem(response, closing(problem))
    }
    const found = canonicalPath(request.url ?? '')
    if (!found.ok) return this.refuse(request, response, badPath(found.reason))
    if (isReservedPath(found.path)) return this.serveOwn(request, response, found.path)

    const traced = this.traceAnswer(request, response)
    const method = request.method ?? 'GET'
    const requested: RequestedCall = { method, path: found.path, traced }
    const call = { request, response, requested }
    if (this.#meteredRequests?.isMetered(found.path) === true) {
      return this.#meteredRequests.serve(call)
    }
    return this.serveOrdinary(call)
  }

  /** Answers a call that is decided before its body is read. */
  async serveOrdinary(call: GatewayRequest): Promise<void> {
    const { request, response, requested } = call
    const admitting = this.admit(request, requested)
    const admitted = admitting instanceof Promise ? await admitting : admitting
    // Checked on the socket, which is destroyed before the response emits `close`.
    if (request.socket.destroyed) return this.abandon(admitted)
    if (admitted.refusal !== undefined) return this.refuse(request, response, admitted.refusal)

    const { decision } = admitted
    releaseAtEnd(decision, request.socket, response)
    if (decision.delayMs > 0 && !(await this.hold(request.socket, decision))) return
    sendContinue(request, response)
    this.forward(call, admitted)
  }

  /** Forwards an admitted call to its upstream. */
  forward(
    { request, response, requested }: GatewayRequest,
    admitted: ForwardedCall,
    { body, tap }: Pick<ForwardOptions, 'body' | 'tap'> = {},
  ): void {
    const { target } = admitted
    const sent = this.headerContext(request, admitted)
    this.recordUpstreamCall(target)
    forward({
      request,
      response,
      target,
      body,
      tap,
      path: originForm(request.url ?? '/'),
      headers: this.upstreamHeaders(request, sent, requested.traced),
      rateLimitHeaders: admitted.headers,
      failureHeaders: this.ownHeaders(request, admitted.headers),
      timeouts: this.deps.config.gateway.timeouts,
      onEnd: (failure) => this.recordUpstreamEnd(target, failure, request),
      onSlowUpload: this.deps.onSlowUpload,
    })
  }

  /** Whether the socket sent an ambiguous request; its pipelined requests were parsed already. */
  isDistrusted(socket: Duplex): boolean {
    return this.#distrusted.has(socket)
  }

  /** Admits a call that an upstream serves. */
  admit(
    request: IncomingMessage,
    requested: RequestedCall,
  ): GatewayAdmission | Promise<GatewayAdmission> {
    const identified = this.#admission.identify(request)
    if (identified instanceof Promise) {
      return identified.then((identity) => this.admitIdentified(identity, requested))
    }
    return this.admitIdentified(identified, requested)
  }

  private admitIdentified(
    identity: Identity,
    requested: RequestedCall,
  ): GatewayAdmission | Promise<GatewayAdmission> {
    const canWait = this.heldCalls.hasRoom(this.#reserved)
    if (canWait) this.#reserved += 1
    const options = { receipt: 'if-delayed', canWait, inFlight: true } as const
    const result = this.#admission.admit(identity, requested, options)
    const finish = (admission: GatewayAdmission) => {
      if (canWait && !isDelayed(admission)) this.#reserved -= 1
      return admission
    }
    return result instanceof Promise
      ? result.then((later) => finish(this.withTarget(later, requested.path)))
      : finish(this.withTarget(result, requested.path))
  }

  private withTarget(result: AdmissionResult, path: string): GatewayAdmission {
    if (result.refusal !== undefined) return result
    const target = this.deps.upstreams.find(path)
    if (target !== undefined) return { ...result, target }
    result.decision.release?.()
    return { refusal: problemResponse({ ...NO_UPSTREAM, headers: result.headers }) }
  }

  headerContext(request: IncomingMessage, { identity, decision, target }: ForwardedCall) {
    const { trusted, forwardedFor } = identity
    const host =
      target.upstream.host === 'preserve'
        ? (request.headers.host ?? target.authority)
        : target.authority
    return { trusted, forwardedFor, host, proto: this.proto, tags: decision.tags() }
  }

  upstreamHeaders(
    request: IncomingMessage,
    sent: UpstreamHeaderContext,
    traced: RequestTrace | undefined,
  ): FlatHeaders {
    const headers = this.headerWriter.write(request, sent)
    return traced === undefined ? headers : traced.inject(headers)
  }

  recordUpstreamCall({ upstream }: Target): void {
    this.deps.onUpstreamCall?.(upstream.origin)
  }

  /** Ignores failures of requests that the client aborted. */
  recordUpstreamEnd(
    { upstream }: Target,
    failure: UpstreamFailure | undefined,
    request: IncomingMessage,
  ): void {
    if (failure === undefined || isBrokenOff(request)) return
    this.deps.onUpstreamFailure(failure, upstream.origin)
  }

  /** Waits for the delay of a call. False if the client left; its units are then refunded. */
  async hold(socket: Duplex, decision: Decision): Promise<boolean> {
    this.#reserved -= 1
    if (await this.heldCalls.hold(socket, decision.delayMs)) return true
    this.giveBack(decision)
    return false
  }

  /** Refunds a call whose client left during the decision. */
  abandon(admission: GatewayAdmission): void {
    if (isDelayed(admission)) this.#reserved -= 1
    if (admission.refusal === undefined) this.giveBack(admission.decision)
  }

  /** Does not wait for the refund; units that an unreachable store keeps expire there. */
  private giveBack({ receipt, release }: Decision): void {
    const { limiter } = this.deps.decider
    release?.()
    if (receipt !== undefined)
      limiter.refund(receipt).catch((error) => this.errorReporter.log(error))
  }

  /** Sends a refusal, and bounds what is still read of the body. */
  refuse(request: IncomingMessage, response: ServerResponse, refusal: HttpResponse): void {
    limitUnreadBody(request, response)
    send(response, { ...refusal, headers: this.ownHeaders(request, refusal.headers) })
  }

  /** The headers of a response that the gateway makes itself, with those of CORS. */
  ownHeaders(request: IncomingMessage, headers: FlatHeaders): FlatHeaders {
    return withCors(this.deps.config.gateway.cors, request, headers)
  }

  private traceAnswer(
    request: IncomingMessage,
    response: ServerResponse,
  ): RequestTrace | undefined {
    const traced = this.deps.telemetry?.begin(request)
    if (traced === undefined) return undefined
    response.once('close', () => traced.end(response.headersSent ? response.statusCode : undefined))
    return traced
  }

  private async serveOwn(request: IncomingMessage, response: ServerResponse, path: string) {
    const { identifier, limitsPage, config } = this.deps
    limitUnreadBody(request, response)
    const identity = await identifier.identify(request)
    const { attributes, peer } = identity
    const refusal = refusalOfIdentity(identity, config.identity, false)
    await limitsPage.answer(request, response, { path, attributes, peer, refusal })
  }
}

/**
 * Gives back the places of a call when its response has been sent or broken off. Watches the socket
 * too: a response that waits behind others on its connection gets no close event.
 */
function releaseAtEnd({ release }: Decision, socket: Duplex, response: ServerResponse): void {
  if (release === undefined) return
  const end = () => {
    socket.off('close', end)
    release()
  }
  socket.once('close', end)
  response.once('close', end)
}

/** Whether the client, or the parser, ended a request before its body was complete. */
function isBrokenOff(request: IncomingMessage): boolean {
  return request.destroyed && !request.complete
}

const NO_UPSTREAM: HttpProblem = {
  status: 404,
  detail: 'No upstream serves this path.',
  error: 'no_upstream',
}

function badPath(reason: string): HttpResponse {
  return problemResponse({ status: 400, detail: `path: ${reason}`, error: 'CALL_PATH_INVALID' })
}

/** Closes the connection after an ambiguous request: the bytes after it cannot be trusted. */
function closing(problem: HttpProblem): HttpProblem {
  return { ...problem, headers: [...(problem.headers ?? []), 'Connection', 'close'] }
}

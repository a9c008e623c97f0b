/**
 * Serves the requests to upstreams with `usage`: reads the body, decides the call with its
 * estimate, and forwards it.
 */
import type { IncomingMessage } from 'node:http'
import { COST_ATTRIBUTES } from '../../../config/usage-attributes.js'
import { limitUnreadBody } from '../../http/unread-body.js'
import type { DecideCall } from '../../admission.js'
import { EarlyBody } from '../early-body.js'
import { sendSlowUpload } from '../forward.js'
import type { Gateway, GatewayAdmission, GatewayRequest } from '../gateway.js'
import { sendContinue } from '../upload.js'
import type { Target } from '../upstreams.js'
import type { UsageDialect } from './dialects.js'
import { MeteredCall } from './metered-call.js'
import type { MeteredUpstream, Metering } from './metering.js'
import { readRequest, type RequestFacts, unreadRequest } from './request-reader.js'

/**
 * Bytes of a body that are read before its call is decided. Text of that length is about 250,000
 * tokens, as much as most models take; longer bodies are mostly images.
 */
export const READ_BODY_MAX = 1024 * 1024

/** The longest that a reservation can last: streams of reasoning models take many minutes. */
const RESERVATION_TTL = '1h'

/** Of a request that makes no model work, such as a list of models. */
const NO_COSTS: Readonly<Record<string, string>> = Object.fromEntries(
  COST_ATTRIBUTES.map((name) => [name, '0']),
)

export class MeteredRequests {
  readonly #gateway: Gateway
  readonly #metering: Metering

  constructor(gateway: Gateway, metering: Metering) {
    this.#gateway = gateway
    this.#metering = metering
  }

  /** Whether the upstream of a canonical path has usage. */
  isMetered(path: string): boolean {
    return this.find(path) !== undefined
  }

  /** Only the body of a POST makes a model work. */
  async serve(call: GatewayRequest): Promise<void> {
    const { requested } = call
    const found = this.find(requested.path)
    if (found !== undefined && requested.method === 'POST') return this.servePost(call, found)
    const decide = this.checkWithoutCosts(call)
    await this.#gateway.serveOrdinary({ ...call, requested: { ...requested, decide } })
  }

  private find(path: string): MeteredTarget | undefined {
    const target = this.#gateway.deps.upstreams.find(path)
    const upstream = target && this.#metering.find(target.upstream)
    return upstream && { target, upstream }
  }

  private async servePost(
    call: GatewayRequest,
    { target, upstream }: MeteredTarget,
  ): Promise<void> {
    const { request, response, requested } = call
    sendContinue(request, response)
    const body = await EarlyBody.read(request, {
      bodyMemory: target.bodyMemory,
      bytesMax: READ_BODY_MAX,
      stallMs: this.#gateway.deps.config.gateway.timeouts.stallMs,
    })
    if (body === 'gone') return
    if (body === 'slow') return this.refuseSlow(call)
    const facts = readFacts(request, requested.path, body, upstream.config.dialect)
    const metered = new MeteredCall(upstream, facts)
    const decide = this.reserve(call, metered)
    const admitted = await this.#gateway.admit(request, { ...requested, decide })
    await this.finish(call, { body, metered, admitted })
  }

  private async finish(
    call: GatewayRequest,
    { body, metered, admitted }: DecidedRequest,
  ): Promise<void> {
    const gateway = this.#gateway
    const { request, response } = call
    if (request.socket.destroyed || admitted.refusal !== undefined) {
      body.discard()
      metered.release()
      if (request.socket.destroyed) return gateway.abandon(admitted)
    }
    if (admitted.refusal !== undefined) return gateway.refuse(request, response, admitted.refusal)
    const { decision } = admitted
    if (decision.delayMs > 0 && !(await gateway.hold(request.socket, decision))) {
      body.discard()
      return metered.cancel()
    }
    gateway.forward(call, admitted, { body, tap: metered })
  }

  private reserve({ requested: { traced } }: GatewayRequest, metered: MeteredCall): DecideCall {
    const { decider } = this.#gateway.deps
    return (call, { canWait }) =>
      metered.decide(call, (estimated) =>
        decider.reserve(estimated, 'gateway', { ttl: RESERVATION_TTL, canWait }, traced),
      )
  }

  private checkWithoutCosts({ requested: { traced } }: GatewayRequest): DecideCall {
    const { decider } = this.#gateway.deps
    return ({ attributes }, options) =>
      decider.check({ attributes: { ...attributes, ...NO_COSTS } }, 'gateway', options, traced)
  }

  private refuseSlow({ request, response }: GatewayRequest): void {
    limitUnreadBody(request, response)
    this.#gateway.deps.onSlowUpload()
    sendSlowUpload(response, this.#gateway.ownHeaders(request, []))
  }
}

interface MeteredTarget {
  readonly target: Target
  readonly upstream: MeteredUpstream
}

interface DecidedRequest {
  readonly body: EarlyBody
  readonly metered: MeteredCall
  readonly admitted: GatewayAdmission
}

function readFacts(
  { headers }: IncomingMessage,
  path: string,
  body: EarlyBody,
  dialect: UsageDialect,
): RequestFacts {
  const whole = body.whole()
  const encoding = headers['content-encoding'] ?? 'identity'
  const length = Number.isFinite(body.size) ? body.size : (whole?.length ?? READ_BODY_MAX)
  if (encoding !== 'identity') return unreadRequest(length, true)
  return whole === undefined ? unreadRequest(length) : readRequest(dialect, path, whole)
}

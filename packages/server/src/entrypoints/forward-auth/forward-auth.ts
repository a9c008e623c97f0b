/**
 * Forward-auth: a reverse proxy requests a decision before it forwards a call. The headers of the
 * request describe the call, so only trusted proxies may use it: any other client could spend the
 * budget of the caller that it names.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { show } from '@sluice/core'
import type { WallClock } from '../../lib/wall-clock.js'
import { Admission, type AdmissionDeps } from '../admission.js'
import { type HttpProblem, send, sendProblem } from '../http/responses.js'
import { limitUnreadBody } from '../http/unread-body.js'
import type { Identity } from '../../identity/identify.js'
import type { Log } from '../../observability/log/logger.js'
import type { Telemetry } from '../../observability/tracing/telemetry.js'
import { readForwardedCall } from './forwarded-call.js'

export interface ForwardAuthDeps extends AdmissionDeps {
  readonly clock: WallClock
  readonly log: Log
  /** Undefined: no spans. */
  readonly telemetry?: Telemetry | undefined
}

const WARN_EVERY_MS = 60_000
/**
 * Proxies give up after half a second, and many then let the call pass. So nothing that a caller
 * can provoke, such as a token whose key has to be fetched, may take nearly as long.
 */
const TOKEN_WITHIN_MS = 150

export class ForwardAuth {
  readonly #deps: ForwardAuthDeps
  readonly #admission: Admission
  #warnFromMs = Number.NEGATIVE_INFINITY

  constructor(deps: ForwardAuthDeps) {
    const { refusedStatus } = deps.config.api
    this.#deps = deps
    this.#admission = new Admission(deps, {
      entryPoint: 'forward-auth',
      sendsHeaders: true,
      // Never a 5xx: a proxy treats it as a failure of Sluice, and many then let the call through.
      statusOf: (status) => (status === 429 || status >= 500 ? refusedStatus : status),
    })
  }

  /** Rejects with a SluiceError if the call is ambiguous. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    limitUnreadBody(request, response)
    const identified = this.#admission.identify(request, TOKEN_WITHIN_MS)
    const identity = identified instanceof Promise ? await identified : identified
    if (!identity.trusted) return sendProblem(response, untrustedProxy(identity))
    const requested = readForwardedCall(request)
    this.warnOfMissingClient(identity)

    const traced = this.#deps.telemetry?.follow(request)
    // A proxy times out while a call is held, so no call waits here.
    const options = { canWait: false }
    const admitted = await this.#admission.admit(identity, { ...requested, traced }, options)
    if (admitted.refusal !== undefined) return send(response, admitted.refusal)
    // Exactly 200: Envoy treats every other status as a refusal.
    response.writeHead(200, [...admitted.headers, 'Content-Length', '0'])
    response.end()
  }

  private warnOfMissingClient({ peer, forwardedFor }: Identity): void {
    if (forwardedFor !== peer) return
    const { log, clock, config } = this.#deps
    const nowMs = clock.now()
    if (nowMs < this.#warnFromMs) return
    this.#warnFromMs = nowMs + WARN_EVERY_MS
    log.warn(
      { proxy: peer },
      `forward-auth: the proxy sends no client address, so all its clients count as one caller; configure it to send ${config.forwardedHeader}`,
    )
  }
}

function untrustedProxy({ peer }: Identity): HttpProblem {
  return {
    status: 403,
    detail: `${show(peer)} is not a trusted proxy. SLUICE_TRUSTED_PROXIES lists those that may ask.`,
    error: 'untrusted_proxy',
  }
}

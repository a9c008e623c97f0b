/**
 * The question that a reverse proxy asks before it forwards a call. The call is in the headers of
 * the question, so only proxies that are trusted may ask: anybody else could spend the budget of
 * whomever it names.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Call, type Decision, matchPattern, show } from '@sluice/core'
import type { WallClock } from '../../lib/wall-clock.js'
import type { Config } from '../../config/config.js'
import type { Decider } from '../../decide.js'
import { sendProblem, sendRefusal, flatHeaders, type HttpProblem } from '../http/responses.js'
import { limitUnreadBody } from '../http/unread-body.js'
import { type Identifier, type Identity, refusalOfIdentity } from '../../identity/identify.js'
import type { Log } from '../../observability/log/logger.js'
import type { Telemetry } from '../../observability/tracing/telemetry.js'
import { readForwardedCall } from './forwarded-call.js'

export interface ForwardAuthDeps {
  readonly config: Config
  readonly decider: Decider
  readonly identifier: Identifier
  readonly clock: WallClock
  /** For instants in responses. */
  readonly responseClock: WallClock
  /** From 0 to 1, for the jitter of refusals. */
  readonly random: () => number
  readonly log: Log
  /** Undefined: no spans. */
  readonly telemetry?: Telemetry | undefined
}

const WARN_EVERY_MS = 60_000
/**
 * Proxies give up on a question after half a second, and many then let the call pass. So nothing
 * that a caller can invent, such as a token whose key has to be fetched, may take nearly as long.
 */
const TOKEN_WITHIN_MS = 150

export class ForwardAuth {
  readonly #deps: ForwardAuthDeps
  #warnFromMs = Number.NEGATIVE_INFINITY

  constructor(deps: ForwardAuthDeps) {
    this.#deps = deps
  }

  /** Rejects with a SluiceError where it is not clear which call is meant. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { config, decider, identifier } = this.#deps
    limitUnreadBody(request, response)
    const identified = identifier.identify(request, TOKEN_WITHIN_MS)
    const identity = identified instanceof Promise ? await identified : identified
    if (!identity.trusted) return sendProblem(response, untrustedProxy(identity))
    const { method, path } = readForwardedCall(request)
    this.warnOfMissingClient(identity)

    const call: Call = { attributes: { ...identity.attributes, method, path } }
    // A proxy cannot be made to hold a call: it would give up on the question.
    const decide = () => decider.check(call, 'forward-auth', { canWait: false })
    const traced = this.#deps.telemetry?.follow(request)
    const decision = await (traced === undefined
      ? decide()
      : traced.decide({ entryPoint: 'forward-auth' }, decide))
    if (!decision.allowed) return this.refuse(response, decision)
    const headers = flatHeaders(decision, this.#deps.responseClock.now())
    const unknown = refusalOfIdentity(identity, config.identity, this.needsUser(path))
    if (unknown !== undefined) {
      const status = this.statusOf(unknown.status)
      const all = [...unknown.headers, ...headers]
      return sendProblem(response, { ...unknown, status, headers: all })
    }
    // Exactly 200: Envoy takes every other status for a refusal.
    headers.push('Content-Length', '0')
    response.writeHead(200, headers)
    response.end()
  }

  private refuse(response: ServerResponse, decision: Decision): void {
    const { responseClock, random, config } = this.#deps
    const status = config.api.refusedStatus === 403 ? 403 : undefined
    const { jitter } = config.refusals
    const nowMs = responseClock.now()
    // Never 503: to a proxy that means that Sluice is gone, and many then let the call through.
    const postureStatus = 429
    sendRefusal(response, decision, { nowMs, jitter, fraction: random(), status, postureStatus })
  }

  /** What is refused only for now is told as a refusal is; again no 5xx. */
  private statusOf(status: number): number {
    return status === 429 || status >= 500 ? this.#deps.config.api.refusedStatus : status
  }

  private needsUser(path: string): boolean {
    const { requireUser } = this.#deps.config.gateway
    return requireUser.some((pattern) => matchPattern(pattern, path, false))
  }

  private warnOfMissingClient({ peer, forwardedFor }: Identity): void {
    if (forwardedFor !== peer) return
    const { log, clock, config } = this.#deps
    const nowMs = clock.now()
    if (nowMs < this.#warnFromMs) return
    this.#warnFromMs = nowMs + WARN_EVERY_MS
    log.warn(
      { proxy: peer },
      `a proxy names no client, so all its clients count as one caller; let it send ${config.forwardedHeader}`,
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

/**
 * Admission: identifies a caller, decides its call, and prepares the refusal or the rate limit
 * headers. Every entry point that guards calls is an adapter: it reads the call from its protocol,
 * calls this module, and writes the result in its protocol.
 */
import { type Call, CANONICAL_PATH, type Decision, matchPattern } from '@sluice/core'
import type { CheckOptions } from '@sluice/limiter'
import type { Config } from '../config/config.js'
import type { Decider, EntryPoint } from '../decide.js'
import {
  type IdentifiableRequest,
  type Identifier,
  type Identity,
  refusalOfIdentity,
} from '../identity/identify.js'
import type { WallClock } from '../lib/wall-clock.js'
import type { RequestTrace } from '../observability/tracing/telemetry.js'
import type { ErrorReporter } from './http/error-reporter.js'
import {
  type FlatHeaders,
  flatHeaders,
  type HttpResponse,
  problemResponse,
  refusalResponse,
} from './http/responses.js'

export interface AdmissionDeps {
  readonly config: Config
  readonly decider: Decider
  readonly identifier: Identifier
  /** For instants in responses. */
  readonly responseClock: WallClock
  /** From 0 to 1, for the jitter of refusals. */
  readonly random: () => number
  readonly errorReporter: ErrorReporter
}

/** What sets one entry point apart from the others. */
export interface AdmissionOptions {
  readonly entryPoint: EntryPoint
  /** Whether responses to admitted calls carry rate limit headers. */
  readonly sendsHeaders: boolean
  /** The status to send in place of another. @default the same */
  readonly statusOf?: ((status: number) => number) | undefined
}

/** A call as its entry point read it. */
export interface RequestedCall {
  readonly method: string
  /** Canonical. */
  readonly path: string
  readonly traced: RequestTrace | undefined
  /** Decides the call in place of an ordinary check. */
  readonly decide?: DecideCall | undefined
}

export type DecideCall = (call: Call, options: CheckOptions) => Decision | Promise<Decision>

export interface AdmittedCall {
  readonly refusal?: undefined
  readonly identity: Identity
  readonly call: Call
  readonly decision: Decision
  /** The rate limit headers; empty if the entry point sends none. */
  readonly headers: FlatHeaders
}

interface RefusedCall {
  readonly refusal: HttpResponse
}

export type AdmissionResult = AdmittedCall | RefusedCall

export class Admission {
  readonly #deps: AdmissionDeps
  readonly #options: AdmissionOptions

  constructor(deps: AdmissionDeps, options: AdmissionOptions) {
    this.#deps = deps
    this.#options = options
  }

  /** A promise only if a token has to be verified; see `Identifier`. */
  identify(request: IdentifiableRequest, withinMs?: number): Identity | Promise<Identity> {
    return this.#deps.identifier.identify(request, withinMs)
  }

  /**
   * Decides the call of an identified caller. Calls with a wrong key or token are counted before
   * they are refused, so that guessing costs budget. Never fails; a promise only if the decision is
   * one.
   */
  admit(
    identity: Identity,
    { method, path, traced, decide }: RequestedCall,
    options: CheckOptions,
  ): AdmissionResult | Promise<AdmissionResult> {
    const { attributes } = identity
    attributes['method'] = method
    attributes['path'] = path
    attributes[CANONICAL_PATH] = path
    const call = { attributes }
    try {
      const { decider } = this.#deps
      const decided =
        decide === undefined
          ? decider.check(call, this.#options.entryPoint, options, traced)
          : decide(call, options)
      return decided instanceof Promise
        ? this.admitLater(decided, identity, call, path)
        : this.resultOf(decided, identity, call, path)
    } catch (error) {
      return this.failed(error)
    }
  }

  private async admitLater(
    decided: Promise<Decision>,
    identity: Identity,
    call: Call,
    path: string,
  ): Promise<AdmissionResult> {
    try {
      return this.resultOf(await decided, identity, call, path)
    } catch (error) {
      return this.failed(error)
    }
  }

  private resultOf(
    decision: Decision,
    identity: Identity,
    call: Call,
    path: string,
  ): AdmissionResult {
    const { config, responseClock } = this.#deps
    if (!decision.allowed) return this.refused(decision)
    const headers = this.#options.sendsHeaders ? flatHeaders(decision, responseClock.now()) : []
    const unknown = refusalOfIdentity(identity, config.identity, this.needsUser(path))
    if (unknown === undefined) return { identity, call, decision, headers }
    // A call that is refused is not in flight.
    decision.release?.()
    const status = this.statusOf(unknown.status)
    const all = [...unknown.headers, ...headers]
    return { refusal: problemResponse({ ...unknown, status, headers: all }) }
  }

  private refused(decision: Decision): RefusedCall {
    const { responseClock, random, config } = this.#deps
    const nowMs = responseClock.now()
    const options = { nowMs, fraction: random(), ...config.refusals }
    return { refusal: refusalResponse(decision, options, (status) => this.statusOf(status)) }
  }

  private failed(error: unknown): RefusedCall {
    return { refusal: problemResponse(this.#deps.errorReporter.problemOf(error)) }
  }

  private statusOf(status: number): number {
    return this.#options.statusOf?.(status) ?? status
  }

  private needsUser(path: string): boolean {
    const { requireUser } = this.#deps.config.gateway
    return requireUser.some((pattern) => matchPattern(pattern, path, false))
  }
}

/**
 * What all middlewares share: reads the call of a request, decides it, and prepares what is sent.
 * An adapter describes a request, calls `admit`, and writes the result as its framework wants it.
 *
 * Nothing here waits unless the limiter, a function of the user or a delay does, so that a decision
 * in memory costs no promise.
 */
import {
  type Attributes,
  type Call,
  CANONICAL_PATH,
  canonicalPath,
  type Decision,
  type FlatHeaders,
  flatRateLimitHeaders,
  type HttpResponse,
  problemObject,
  refusalResponse,
  type SluiceError,
  sluiceErrorOf,
} from '@sluice/core'
import { systemClock } from '../clock.js'
import { createHeldCalls, type HeldCalls, type HeldClient } from '../held-calls.js'
import type { CheckOptions } from '../limiter-types.js'
import { type AddressedRequest, ClientIp } from './client-ip.js'
import { ErrorLog, guardLogger } from './error-log.js'
import type {
  Awaitable,
  CallLimiter,
  MiddlewareLogger,
  MiddlewareOptions,
  RequestReservation,
} from './middleware-options.js'
import {
  checkCreation,
  findSharedCounters,
  markDecided,
  RequestSample,
  suspectNoCaller,
} from './mistakes.js'
import { openLimiter, type OwnedLimiter } from './own-limiter.js'
import { PlacedReservation } from './placed-reservation.js'
import { readCount, readHold, readReserve, requireMiddlewareOptions } from './read-options.js'
import { processWarnings, type WarningCode, type WarningLog } from './warning-log.js'

/** One request, as an adapter describes it. */
export interface LimitedRequest<Request> extends AddressedRequest<Request> {
  readonly method: string
  /** The request target: `/path?query`, or a whole URL. */
  readonly target: string
  /**
   * Notices that the client leaves while its call is held. Undefined: calls are not held, and their
   * end is not seen, so that they are not counted as in flight.
   */
  readonly client: HeldClient | undefined
  /** The attribute `route`, where the adapter knows the route of a request. */
  readonly route?: string | undefined
}

/** The call may go on. */
export interface AdmittedRequest {
  readonly kind: 'admitted'
  /** Undefined if the call was skipped, or passed because the limiter failed. */
  readonly decision: Decision | undefined
  /** The rate limit headers of the response. */
  readonly headers: FlatHeaders
  /** What `settle` ends or gives back; undefined if the call is counted in any case. */
  readonly reservation: RequestReservation | PlacedReservation | undefined
  /** To be called when the call has ended; undefined if it holds no places. */
  readonly release: (() => void) | undefined
}

/** The call gets this response instead. */
export interface RefusedRequest {
  readonly kind: 'refused'
  readonly response: HttpResponse
  /** Undefined if the call was not decided: its path is ambiguous, or the limiter failed. */
  readonly decision: Decision | undefined
}

/** The client left; nothing can be sent. */
export interface AbandonedRequest {
  readonly kind: 'abandoned'
}

export type Admission = AdmittedRequest | RefusedRequest | AbandonedRequest

/** How a request ended: the status of its answer, or none since the client left before. */
export type Ending = number | 'aborted'

/** What sets one adapter apart from the others, and what tests replace. */
export interface RequestLimiterDeps {
  /** Whether the adapter shows the address of the socket. */
  readonly isSocketKnown: boolean
  /** @default those of the process */
  readonly warnings?: WarningLog | undefined
  /** Milliseconds since 1970. @default the system's */
  readonly nowMs?: (() => number) | undefined
  /** From 0 to 1, for the jitter of refusals. @default random */
  readonly random?: (() => number) | undefined
}

const SKIPPED: AdmittedRequest = {
  kind: 'admitted',
  decision: undefined,
  headers: [],
  reservation: undefined,
  release: undefined,
}
const ABANDONED: AbandonedRequest = { kind: 'abandoned' }

/** As the gateway, whose settings these are. */
const POSTURE_STATUS = 429
const JITTER = true

export class RequestLimiter<Request, Response, Answer = void> {
  readonly #options: MiddlewareOptions<Request, Response, Answer, never>
  readonly #owned: OwnedLimiter
  readonly #limiter: CallLimiter
  readonly #clientIp: ClientIp<Request> | undefined
  readonly #heldCalls: HeldCalls
  readonly #warnings: WarningLog
  readonly #logger: MiddlewareLogger
  readonly #errorLog: ErrorLog
  readonly #nowMs: () => number
  readonly #random: () => number
  readonly #checkOptions: {
    readonly room: CheckOptions
    readonly full: CheckOptions
    readonly unseen: CheckOptions
  }
  /** How requests are reserved; undefined if they are only decided. */
  readonly #reserve: { readonly ttl: string | number } | undefined
  readonly #forwardedSample = new RequestSample()
  readonly #decidedSample = new RequestSample()
  /** Places of calls that are being decided and may have to be held. */
  #reserved = 0

  constructor(
    options: MiddlewareOptions<Request, Response, Answer, never>,
    deps: RequestLimiterDeps,
  ) {
    requireMiddlewareOptions(options)
    const { nowMs = () => systemClock.now() / 1000, random = Math.random } = deps
    this.#options = options
    this.#logger = guardLogger(options.logger ?? console)
    this.#warnings = deps.warnings ?? processWarnings
    this.#errorLog = new ErrorLog(this.#logger, nowMs)
    this.#nowMs = nowMs
    this.#random = random
    this.#clientIp = ClientIp.create<Request>(options, deps.isSocketKnown)
    this.#owned = openLimiter(options, this.#logger, (code, subject) => this.warn(code, subject))
    this.#limiter = this.#owned.limiter
    const isCounting = readCount(options.count, this.#limiter) !== 'all'
    this.#reserve = readReserve(options.reserve ?? isCounting, this.#limiter)
    this.#heldCalls = createHeldCalls(readHold(options.hold))
    this.#checkOptions = {
      room: { receipt: 'if-delayed', canWait: true, inFlight: true },
      full: { canWait: false, inFlight: true },
      unseen: { canWait: false },
    }
    if (this.#clientIp === undefined && this.#owned.countsByIp()) this.warn('no-address')
    checkCreation((code) => this.warn(code))
  }

  /** Decides the calls; for `peek`, `reset` and the like. */
  get limiter(): CallLimiter {
    return this.#limiter
  }

  /** Whether the rules name routes themselves; false where they are not known here. */
  get definesRoutes(): boolean {
    return this.#owned.definesRoutes()
  }

  /** How many calls are held at present. */
  get held(): number {
    return this.#heldCalls.count()
  }

  /**
   * Decides a request, and holds it if its call is delayed. Throws, or rejects, only with what a
   * function of the user threw.
   */
  admit(limited: LimitedRequest<Request>): Awaitable<Admission> {
    const read = this.readCall(limited)
    if (!isThenable(read)) return this.admitRead(limited, read)
    return Promise.resolve(read).then((later) => this.admitRead(limited, later))
  }

  /** Reads the call of a request without deciding it, or how it ends without a decision. */
  readCall(limited: LimitedRequest<Request>): Awaitable<Call | Admission> {
    const { skip } = this.#options
    if (skip === undefined) return this.readCounted(limited)
    const isSkipped = skip(limited.request)
    if (!isThenable(isSkipped)) return isSkipped ? SKIPPED : this.readCounted(limited)
    return Promise.resolve(isSkipped).then((later) => (later ? SKIPPED : this.readCounted(limited)))
  }

  /**
   * Decides a call by attributes that the adapter made itself, such as a message of a WebSocket.
   * Nothing is held, and no place is taken: nobody says when a message has been dealt with.
   */
  admitCall(call: Call, request: Request): Awaitable<Admission> {
    return this.decide(call, request, undefined, undefined)
  }

  /** The attributes of a request, with those of the user. */
  private attributesOf(limited: LimitedRequest<Request>): Awaitable<Attributes> {
    const { attributes } = this.#options
    const read = this.readAttributes(limited)
    if (attributes === undefined) return read
    const added = attributes(limited.request)
    if (!isThenable(added)) return Object.assign(read, added)
    return Promise.resolve(added).then((later) => Object.assign(read, later))
  }

  /**
   * Keeps or gives back what an admitted call took, now that its answer is known, unless its
   * handler has settled it. Never fails and need not be waited for. A call without an answer stays
   * counted: it may have been served, and leaving early must not be free.
   */
  settle(
    { reservation }: AdmittedRequest,
    ending: Ending,
    request: Request,
    response: Response,
  ): void {
    if (reservation === undefined) return
    const isPlaced = reservation instanceof PlacedReservation
    const finish = (isCounted: boolean) =>
      isPlaced ? reservation.count(isCounted) : this.finish(reservation, isCounted)
    const { count = 'all' } = this.#options
    if (ending === 'aborted' || count === 'all') return finish(true)
    if (typeof count !== 'function')
      return finish(count === (ending < 400 ? 'succeeded' : 'failed'))
    if (isPlaced) reservation.ask()
    this.attempt('count', () => {
      try {
        return chain(count(request, response), finish)
      } catch (error) {
        finish(true)
        throw error
      }
    })
  }

  /** Ends a reservation that its handler has not ended. One that stays charged needs no end. */
  private finish(reservation: RequestReservation, isCounted: boolean): void {
    if (!isCounted) this.attempt('units not given back', () => reservation.cancel())
    else if (reservation.holdsPlaces?.() === true) {
      this.attempt('places not given back', () => reservation.settle({}))
    }
  }

  /** Logs an error, at most one line a minute. */
  logError(subject: string, error: unknown): void {
    this.#errorLog.log(subject, error)
  }

  /** Logs a warning once per process, unless it is silenced. */
  warn(code: WarningCode, subject?: string): void {
    const { warnings } = this.#options
    if (warnings === false || warnings?.includes(code)) return
    this.#warnings.log(code, this.#logger, subject)
  }

  /**
   * Stops following the rules and closes the limiter, if it was made here. Held calls are decided
   * already, and go on at their time.
   */
  async close(): Promise<void> {
    await this.#owned.close()
  }

  private readCounted(limited: LimitedRequest<Request>): Awaitable<Call | Admission> {
    const { attributes: own } = this.#options
    const attributes = this.attributesOf(limited)
    // Attributes that were made here are no promise, and are not looked at as one.
    if (own === undefined || !isThenable(attributes)) {
      return this.callOf(limited, attributes as Attributes)
    }
    return Promise.resolve(attributes).then((later) => this.callOf(limited, later))
  }

  private callOf(
    limited: LimitedRequest<Request>,
    attributes: Attributes,
  ): Awaitable<Call | Admission> {
    const ended = attributes['ip'] === undefined ? this.endWithoutAddress(limited) : undefined
    if (ended !== undefined) return ended
    const { cost } = this.#options
    if (cost === undefined) return { attributes }
    return chain(cost(limited.request), (units) => ({ attributes, cost: units }))
  }

  /**
   * Ends a request without an address, which no rule by `ip` would count: that of a client that
   * reset its connection, and that of a socket that has no addresses if a rule counts by them.
   */
  private endWithoutAddress(limited: LimitedRequest<Request>): Admission | undefined {
    if (limited.endIfGone()) return ABANDONED
    if (!this.#clientIp?.isSocket || limited.peer() !== undefined) return undefined
    if (!this.#owned.countsByIp()) return undefined
    this.#errorLog.log('request refused', NO_ADDRESS_REASON)
    return { kind: 'refused', response: NO_ADDRESS, decision: undefined }
  }

  /** Decides a call that was read, unless its request has ended already. */
  private admitRead(
    limited: LimitedRequest<Request>,
    read: Call | Admission,
  ): Awaitable<Admission> {
    if ('kind' in read) return read
    const { request, client, target, raw } = limited
    const admitting = this.decide(read, request, client, target)
    if (!isThenable(admitting)) return this.inspect(raw, admitting, read)
    return Promise.resolve(admitting).then((admission) => this.inspect(raw, admission, read))
  }

  /** Finds mistakes of the program by a decision; returns the admission as it is. */
  private inspect(raw: object, admission: Admission, call: Call): Admission {
    if (admission.kind !== 'abandoned' && admission.decision !== undefined) {
      this.findMistakes(raw, admission.decision, call)
    }
    return admission
  }

  private readAttributes(limited: LimitedRequest<Request>): Record<string, Attributes[string]> & {
    [CANONICAL_PATH]?: string
  } {
    const found = canonicalPath(limited.target)
    // An ambiguous path is passed on as it is: where a rule depends on it, the limiter refuses it.
    const path = found.ok ? found.path : limited.target
    const ip = this.#clientIp
    if (ip?.ignoresForwarded && this.#forwardedSample.next()) this.findForwarded(limited)
    const attributes: Record<string, Attributes[string]> & { [CANONICAL_PATH]?: string } = {
      method: limited.method,
      path,
      ip: ip?.read(limited),
    }
    if (found.ok) attributes[CANONICAL_PATH] = path
    if (limited.route !== undefined) attributes['route'] = limited.route
    return attributes
  }

  private decide(
    call: Call,
    request: Request,
    client: HeldClient | undefined,
    target: string | undefined,
  ): Awaitable<Admission> {
    const canWait = client !== undefined && this.#heldCalls.hasRoom(this.#reserved)
    const { room, full, unseen } = this.#checkOptions
    const options = canWait ? room : client === undefined ? unseen : full
    try {
      const decided = this.ask(call, options)
      if (!isThenable(decided)) return this.onDecided(decided, request, client)
      const places = canWait ? 1 : 0
      this.#reserved += places
      return Promise.resolve(decided)
        .then(
          (decision) => {
            this.#reserved -= places
            // Only a decision that was waited for can come after its client has left.
            return client?.destroyed && decision?.allowed
              ? this.abandon(decision)
              : this.onDecided(decision, request, client)
          },
          (error) => {
            this.#reserved -= places
            throw error
          },
        )
        .catch((error) => this.onFailed(error, target))
    } catch (error) {
      return this.onFailed(error, target)
    }
  }

  /** Asks the limiter for a decision, or for a reservation. */
  private ask(call: Call, options: CheckOptions): Awaitable<Decision> {
    const limiter = this.#limiter
    if (this.#reserve === undefined) {
      return limiter.decide?.(call, options) ?? limiter.check(call, options)
    }
    const { canWait, inFlight = false } = options
    const reserving = { ...this.#reserve, canWait, inFlight }
    return limiter.reserve?.(call, reserving) ?? limiter.check(call, options)
  }

  private onDecided(
    decision: Decision,
    request: Request,
    client: HeldClient | undefined,
  ): Awaitable<Admission> {
    requireDecision(decision)
    this.notify(decision, request)
    if (!decision.allowed) return this.refuse(decision)
    const headers = this.headersOf(decision)
    const admitted: AdmittedRequest = {
      kind: 'admitted',
      decision,
      headers,
      ...this.endOf(decision),
    }
    if (decision.delayMs === 0 || client === undefined) return admitted
    return this.#heldCalls
      .hold(client, decision.delayMs)
      .then((isThere) => (isThere ? admitted : this.abandon(decision)))
  }

  /** What is to be done when the answer to a call is known, and when the call has ended. */
  private endOf(decision: Decision): Pick<AdmittedRequest, 'reservation' | 'release'> {
    const reservation = this.#reserve && asReservation(decision)
    if (reservation?.holdsPlaces?.() !== true) return { reservation, release: decision.release }
    const placed = new PlacedReservation((isCounted) => this.finish(reservation, isCounted))
    return { reservation: placed, release: () => placed.release() }
  }

  private refuse(decision: Decision): RefusedRequest {
    const { standard, legacy } = this.#options.headers ?? {}
    const response = refusalResponse(decision, {
      nowMs: this.#nowMs(),
      postureStatus: POSTURE_STATUS,
      shedStatus: this.#options.shedStatus,
      jitter: JITTER,
      fraction: this.#random(),
      standard,
      legacy,
    })
    return { kind: 'refused', response, decision }
  }

  private headersOf(decision: Decision): FlatHeaders {
    const { standard, legacy } = this.#options.headers ?? {}
    return flatRateLimitHeaders(decision, { nowMs: this.#nowMs(), standard, legacy })
  }

  /** The limiter failed: the client's mistake is its own, all else is up to the posture. */
  private onFailed(error: unknown, target: string | undefined): Admission {
    const known = sluiceErrorOf(error)
    if (known?.status === 400)
      return { kind: 'refused', response: badCall(known, target), decision: undefined }
    this.#errorLog.log('request not decided', error)
    if (this.#options.posture === 'open') return SKIPPED
    const status = known?.status === 503 ? 503 : 500
    return { kind: 'refused', response: failureResponse(status, known?.code), decision: undefined }
  }

  /** Gives back without waiting; units that an unreachable store keeps expire there. */
  private abandon(decision: Decision): AbandonedRequest {
    const { receipt, release } = decision
    release?.()
    const reservation = asReservation(decision)
    if (reservation !== undefined) this.finish(reservation, false)
    else if (receipt !== undefined) {
      this.attempt('units not given back', () => this.#limiter.refund?.(receipt))
    }
    return ABANDONED
  }

  /** Calls a function of the user without waiting for it; what it throws is logged. */
  private attempt(subject: string, run: () => unknown): void {
    try {
      const result = run()
      if (!isThenable(result)) return
      Promise.resolve(result).catch((error) => this.#errorLog.log(subject, error))
    } catch (error) {
      this.#errorLog.log(subject, error)
    }
  }

  private notify(decision: Decision, request: Request): void {
    const { onDecision } = this.#options
    if (onDecision === undefined) return
    this.attempt('onDecision', () => onDecision(decision, request))
  }

  private findForwarded(limited: LimitedRequest<Request>): void {
    if (this.#warnings.has('forwarded-ignored')) return
    if (limited.header('x-forwarded-for') !== undefined) this.warn('forwarded-ignored')
  }

  private findMistakes(raw: object, decision: Decision, call: Call): void {
    const owner = this.#owned
    if (this.#decidedSample.next() && !this.#warnings.has('counted-twice')) {
      const before = markDecided(raw, owner, decision)
      const rule = before && findSharedCounters(before, { owner, decision })
      if (rule !== undefined) this.warn('counted-twice', `rule ${rule}`)
    }
    if (decision.reason === 'unmatched' && !this.#warnings.has('no-caller')) {
      suspectNoCaller(owner, call, (subject) => this.warn('no-caller', subject))
    }
  }
}

/** The decision as a reservation, if it is one. */
function asReservation(decision: Decision): RequestReservation | undefined {
  return 'cancel' in decision ? (decision as RequestReservation) : undefined
}

/** Goes on at once with a value, and later with a promise. */
export function chain<Value, Result>(
  value: Awaitable<Value>,
  next: (value: Value) => Awaitable<Result>,
): Awaitable<Result> {
  return isThenable(value) ? Promise.resolve(value).then(next) : next(value)
}

/** Promises of libraries are often not those of the language. */
function isThenable(value: unknown): value is Promise<unknown>
function isThenable<Value>(value: Awaitable<Value>): value is Promise<Value>
function isThenable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'then' in value
}

/** Throws if a limiter of the user returned something else, such as the JSON form of a decision. */
function requireDecision(decision: Decision): void {
  if (typeof decision?.policyField === 'function' && typeof decision.leftField === 'function')
    return
  throw new TypeError(
    'limiter: found a decision without its methods, such as one that was read from JSON; ' +
      'accepted: a Decision with policyField(), leftField() and policies()',
  )
}

const TITLES: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
}

function problem(status: number, detail: string, error: string): HttpResponse {
  const title = TITLES[status] ?? 'Error'
  const body = JSON.stringify(problemObject({ title, status, detail, error }))
  return { status, headers: [], body }
}

/** The answer to a call that could not be decided; the log has the reason. */
export function failureResponse(status = 500, error = 'internal'): HttpResponse {
  return problem(status, 'Internal error in the rate limiter. See the server log.', error)
}

const NO_ADDRESS_REASON = 'its socket has no address, and a rule counts by ip; set address'
const NO_ADDRESS = problem(400, 'The address of the caller is not known.', 'no_address')

/** The answer to a call that is invalid by itself; for a path in the gateway's words. */
function badCall(
  error: Pick<SluiceError, 'code' | 'message'>,
  target: string | undefined,
): HttpResponse {
  const found = target === undefined ? undefined : canonicalPath(target)
  const isPath = error.code === 'CALL_PATH_INVALID' && found?.ok === false
  return problem(400, isPath ? `path: ${found.reason}` : error.message, error.code)
}

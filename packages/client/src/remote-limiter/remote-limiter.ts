/**
 * Decides calls by a Sluice server: `check`, `peek`, `refund` and reservations of its decision API.
 * While the server does not answer, a posture or another limiter decides.
 */
import { isRecord } from '../read-problem.js'
import {
  callText,
  type ItemText,
  receiptText,
  requireActual,
  reservationText,
} from './call-text.js'
import { oneLine, type Operation, type RequestResult, sendRequest } from './decision-request.js'
import type { SettlementView } from '../api-types.js'
import type {
  ActualCosts,
  RemoteCall,
  RemoteCheckOptions,
  RemoteDecision,
  RemoteExtendOptions,
  RemoteReservation,
  RemoteReserveOptions,
} from './decision-types.js'
import { FallbackDecider } from './fallback-decider.js'
import { postureDecision, readDecision, withoutReceipt } from './remote-decision.js'
import { RemoteLimiterError } from './remote-limiter-error.js'
import {
  readOptions,
  type RemoteLimiterOptions,
  type RemoteSettings,
  type RemoteState,
} from './remote-options.js'
import { type PendingItem, type QueueTimers, RequestQueue } from './request-queue.js'
import { SYSTEM_TIMERS } from './queue-clock.js'
import { ServerBreaker } from './server-breaker.js'
import { ServerState } from './server-state.js'

/** What the limiter did so far. */
export interface RemoteLimiterStats {
  readonly state: RemoteState
  /** Calls that wait for the server at present. */
  readonly pending: number
  /** Lists that were sent. */
  readonly requests: number
  /** Decisions that the server made. */
  readonly decided: number
  /** Decisions by the posture or the fallback. */
  readonly byPosture: number
  /** Why the server did not make the last of those; empty if there was none. */
  readonly lastFailure: string
}

export interface RemoteLimiter {
  /**
   * Decides a call and charges its cost. Rejects only with what is wrong with the call; a server
   * that does not answer is a decision with `source: 'posture'`.
   */
  check(call: RemoteCall, options?: RemoteCheckOptions): Promise<RemoteDecision>
  /** Decides a call without charging it. */
  peek(call: RemoteCall): Promise<RemoteDecision>
  /**
   * Returns what a receipt lists. Rejects if the server did not confirm it; it is not sent again,
   * because it may have been done.
   */
  refund(receipt: string): Promise<void>
  /**
   * Decides a call whose costs are estimates, and reserves them; `settle` of the result ends it. A
   * server that does not answer is a decision with `source: 'posture'`, which reserves nothing.
   */
  reserve(call: RemoteCall, options?: RemoteReserveOptions): Promise<RemoteReservation>
  /**
   * Charges what a reservation really used. Rejects if the server did not confirm it; it may be
   * sent again, because a reservation is settled once.
   */
  settle(reservation: string, actual: ActualCosts): Promise<SettlementView>
  /**
   * Reserves more under the same reservation, which gets a new handle. It keeps the old one if the
   * server does not answer and `posture` is `open`.
   */
  extend(
    reservation: string,
    attributes: RemoteCall['attributes'],
    options?: RemoteExtendOptions,
  ): Promise<RemoteReservation>
  /** Gives a reservation back. */
  cancel(reservation: string): Promise<SettlementView>
  readonly stats: RemoteLimiterStats
  /** Waits for what was sent, within the deadline. Every later call fails. */
  close(): Promise<void>
}

/**
 * @example
 * const limiter = remoteLimiter({ url: 'https://sluice.example.com', token })
 * const { allowed, retryAfterMs } = await limiter.check({ attributes: { user: 'u1' } })
 */
export function remoteLimiter(options: RemoteLimiterOptions): RemoteLimiter {
  return createRemoteLimiter(options, { ...SYSTEM_TIMERS, random: Math.random })
}

/** For tests, which replace the timers and the random source. */
export function createRemoteLimiter(
  options: RemoteLimiterOptions,
  deps: RemoteLimiterDeps,
): RemoteLimiter {
  return new ServerLimiter(readOptions(options), deps)
}

export interface RemoteLimiterDeps extends QueueTimers {
  /** From 0 to 1. */
  readonly random: () => number
}

class ServerLimiter implements RemoteLimiter {
  readonly #settings: RemoteSettings
  readonly #breaker: ServerBreaker
  readonly #state: ServerState
  readonly #queue: RequestQueue
  readonly #fallback: FallbackDecider
  /** Whether what a late answer took may have to be given back. */
  readonly #needsReceipts: boolean
  #isClosed = false
  #requests = 0
  #decided = 0
  #byPosture = 0
  #lastFailure = ''

  constructor(settings: RemoteSettings, deps: RemoteLimiterDeps) {
    this.#settings = settings
    this.#breaker = new ServerBreaker(deps.nowMs, deps.random)
    this.#state = new ServerState(settings)
    this.#fallback = new FallbackDecider({ ...settings, after: deps.after })
    this.#needsReceipts = settings.fallback !== undefined || settings.posture === 'closed'
    this.#queue = new RequestQueue({
      ...deps,
      ...settings,
      send: (operation, texts, signal) => {
        this.#requests += 1
        return sendRequest({ ...settings, operation, texts, signal })
      },
      onResult: (result) => this.onResult(result),
    })
  }

  get stats(): RemoteLimiterStats {
    return {
      state: this.#state.current,
      pending: this.#queue.pending,
      requests: this.#requests,
      decided: this.#decided,
      byPosture: this.#byPosture,
      lastFailure: this.#lastFailure,
    }
  }

  async check(call: RemoteCall, options: RemoteCheckOptions = {}): Promise<RemoteDecision> {
    const { receipt = false, canWait, gate } = options
    // A gate takes nothing that could be given back.
    const asked = gate !== true && (this.#needsReceipts || receipt)
    const item = callText(call, {
      policies: true,
      // Any other value would refuse the whole list.
      ...((asked === true || asked === 'if-delayed') && { receipt: asked }),
      ...(canWait === false && { canWait }),
      ...(gate === true && { gate }),
    })
    const isWanted = ({ delayMs }: RemoteDecision) =>
      receipt === true || (receipt === 'if-delayed' && delayMs > 0)
    const decision = await this.requestDecision('check', item, () =>
      this.fallBack(call, options, isWanted),
    )
    return decision.receipt === undefined || isWanted(decision)
      ? decision
      : withoutReceipt(decision)
  }

  async peek(call: RemoteCall): Promise<RemoteDecision> {
    return this.requestDecision('peek', callText(call, { policies: true }), async () => {
      const decided = await this.#fallback.peek(call)
      const decision = decided ?? postureDecision(this.#settings.posture)
      return { decision, onLateAnswer: () => {} }
    })
  }

  async refund(receipt: string): Promise<void> {
    if (this.#fallback.isOwn(receipt)) return this.#fallback.refund(receipt)
    return this.requestRefund(receipt, (item) => this.enqueue(item))
  }

  async reserve(call: RemoteCall, options: RemoteReserveOptions = {}): Promise<RemoteReservation> {
    const { ttl, idempotencyKey, canWait } = options
    const item = callText(call, { policies: true, ttl, idempotencyKey, canWait })
    const decided = await this.requestDecision('reserve', item, async () => {
      const fallback = await this.fallBack(call, { canWait }, () => false)
      const { decision } = fallback
      return { decision, onLateAnswer: (late) => this.reconcileReserve(fallback, late) }
    })
    return this.reservationOf(decided)
  }

  async settle(reservation: string, actual: ActualCosts): Promise<SettlementView> {
    requireActual(actual)
    return this.requestSettlement('settle', reservationText(reservation, { actual }))
  }

  async extend(
    reservation: string,
    attributes: RemoteCall['attributes'],
    { idempotencyKey }: RemoteExtendOptions = {},
  ): Promise<RemoteReservation> {
    const fields = { reservation: requireText(reservation), idempotencyKey }
    const decision = await this.requestDecision('extend', callText({ attributes }, fields), () =>
      this.fallBackToHandle(reservation),
    )
    return this.reservationOf(decision)
  }

  async cancel(reservation: string): Promise<SettlementView> {
    return this.requestSettlement('cancel', reservationText(reservation))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#queue.close()
  }

  // Not `decide`: a middleware calls a method of that name with a call, if there is one.
  private requestDecision(
    operation: Operation,
    item: ItemText,
    fallBack: () => Promise<Fallback>,
  ): Promise<RemoteDecision> {
    return new Promise((resolve, reject) => {
      let made: Promise<Fallback> | undefined
      const resolveByPosture = (why: string) => {
        this.#byPosture += 1
        this.#lastFailure = why
        made = fallBack()
        made.then(({ decision }) => resolve(decision), reject)
      }
      const isSent = this.enqueue({
        operation,
        ...item,
        onAnswer: (value) => {
          const decision = readDecision(value)
          if (decision !== undefined) {
            this.#decided += 1
            resolve(decision)
            return
          }
          const problem = problemOf(value)
          // What is wrong with the call is its own; a server that cannot decide did not answer.
          if (problem.status >= 400 && problem.status < 500) reject(problem)
          else resolveByPosture(textOf(problem))
        },
        onFailure: resolveByPosture,
        // The fallback may still decide while the answer comes.
        onLateAnswer: (value) => {
          made?.then((fallback) => fallback.onLateAnswer(readDecision(value)), ignore)
        },
      })
      if (!isSent) resolveByPosture(this.notSentText())
    })
  }

  /** An extension by posture has the handle of before, so that what it reserved can be settled. */
  private async fallBackToHandle(reservation: string): Promise<Fallback> {
    const decision = postureDecision(this.#settings.posture)
    return {
      decision: decision.allowed ? Object.assign(decision, { reservation }) : decision,
      // What was reserved in vain stays charged, unless the extension is sent again under its key.
      onLateAnswer: ignore,
    }
  }

  private reservationOf(decision: RemoteDecision): RemoteReservation {
    const { reservation, allowed } = decision
    const ended = async () => unsettled(allowed ? 'posture' : 'refused')
    return Object.assign(decision, {
      holdsPlaces: () => reservation !== undefined,
      settle: (actual: ActualCosts) =>
        reservation === undefined ? ended() : this.settle(reservation, actual),
      extend: (attributes: RemoteCall['attributes'], options?: RemoteExtendOptions) =>
        this.extend(reservation ?? '', attributes, options),
      cancel: () => (reservation === undefined ? ended() : this.cancel(reservation)),
    })
  }

  /**
   * A reserve that the server made after all. It is given back if the call did not happen; else the
   * call stays charged, but nobody could say when the places that it holds are free.
   */
  private reconcileReserve(fallback: Fallback, late: RemoteDecision | undefined): void {
    const { reservation } = late ?? {}
    const isAllowed = fallback.decision.allowed
    if (isAllowed || reservation === undefined) fallback.onLateAnswer(late)
    if (late === undefined || reservation === undefined || this.#isClosed) return
    if (isAllowed && !late.policies().some(({ windowMs }) => windowMs === 0)) return
    const item = reservationText(reservation, isAllowed ? { actual: {} } : {})
    const operation = isAllowed ? 'settle' : 'cancel'
    this.requestSettlement(operation, item, (pending) => this.#queue.add(pending)).catch(ignore)
  }

  private requestSettlement(
    operation: Operation,
    item: ItemText,
    enqueue = (pending: PendingItem) => this.enqueue(pending),
  ): Promise<SettlementView> {
    return new Promise((resolve, reject) => {
      const isSent = enqueue({
        operation,
        ...item,
        onAnswer: (value) => {
          if (isSettlement(value)) resolve(value)
          else reject(problemOf(value))
        },
        onFailure: (detail) => reject(notConfirmed(`The ${operation}`, detail)),
        onLateAnswer: ignore,
      })
      if (!isSent) reject(notConfirmed(`The ${operation}`, `not sent: ${this.notSentText()}`))
    })
  }

  private async requestRefund(
    receipt: string,
    enqueue: (item: PendingItem) => boolean,
  ): Promise<void> {
    const item = receiptText(receipt)
    await new Promise<void>((resolve, reject) => {
      const isSent = enqueue({
        operation: 'refund',
        ...item,
        onAnswer: (value) => {
          if (isRecord(value) && value['refunded'] === true) resolve()
          else reject(problemOf(value))
        },
        onFailure: (detail) => reject(notConfirmed('The refund', detail)),
        onLateAnswer: () => {},
      })
      if (!isSent) reject(notConfirmed('The refund', `not sent: ${this.notSentText()}`))
    })
  }

  /** Returns false if the server is not asked at present. */
  private enqueue(item: PendingItem): boolean {
    if (this.#isClosed) {
      throw new RemoteLimiterError('LIMITER_CLOSED', 503, 'The limiter was closed.')
    }
    return this.#breaker.admit() !== undefined && this.#queue.add(item)
  }

  private notSentText(): string {
    const { detail } = this.#state.current
    return this.#breaker.isOpen
      ? `not asked, because of an earlier failure: ${detail}`
      : `${this.#queue.pending} calls wait already`
  }

  private async fallBack(
    call: RemoteCall,
    options: RemoteCheckOptions,
    isWanted: (decision: RemoteDecision) => boolean,
  ): Promise<Fallback> {
    const decided = await this.#fallback.check(call, options)
    const whole = decided ?? postureDecision(this.#settings.posture)
    return {
      decision: isWanted(whole) ? whole : withoutReceipt(whole),
      onLateAnswer: (late) => this.reconcile(whole, late),
    }
  }

  /** The server charged a call that was decided without it: it is counted once, or not at all. */
  private reconcile(decision: RemoteDecision, late: RemoteDecision | undefined): void {
    if (late === undefined || !late.allowed) return
    if (decision.allowed) {
      if (decision.receipt !== undefined) this.#fallback.refund(decision.receipt).catch(ignore)
    } else if (late.receipt !== undefined && !this.#isClosed) {
      // Also while the breaker is open: the server has just answered.
      this.requestRefund(late.receipt, (item) => this.#queue.add(item)).catch(ignore)
    }
  }

  private onResult(result: RequestResult | undefined): void {
    if (result !== undefined && 'items' in result) {
      this.#breaker.succeed()
      const [item] = result.items
      // A server without rules answers, and decides nothing.
      if (result.items.every(isServerProblem))
        this.#state.set({ state: 'unreachable', detail: textOf(problemOf(item)) })
      else this.#state.set({ state: 'answering', detail: '' })
      return
    }
    const { deadlineMs } = this.#settings
    const { failure, detail } = result ?? {
      failure: 'unreachable' as const,
      detail: `no answer within ${deadlineMs} ms`,
    }
    if (failure === 'unreachable') this.#breaker.fail()
    // The next call would get the same answer.
    else this.#breaker.trip()
    if (this.#breaker.isOpen) this.#state.set({ state: failure, detail })
  }
}

const ignore = () => {}

/** A decision without the server, and what to do when the server answers after all. */
interface Fallback {
  readonly decision: RemoteDecision
  onLateAnswer(late: RemoteDecision | undefined): void
}

function problemOf(value: unknown): RemoteLimiterError {
  const { status, error, detail } = isRecord(value) ? value : {}
  return new RemoteLimiterError(
    typeof error === 'string' ? error : 'unexpected',
    typeof status === 'number' ? status : 502,
    typeof detail === 'string' ? detail : 'The server sent something else than a decision.',
  )
}

/** Whether the server said of an item that it cannot decide at present. */
function isServerProblem(value: unknown): boolean {
  return isRecord(value) && typeof value['status'] === 'number' && value['status'] >= 500
}

function textOf({ code, message }: RemoteLimiterError): string {
  return oneLine(`${code}: ${message}`)
}

function notConfirmed(what: string, detail: string): RemoteLimiterError {
  return new RemoteLimiterError('STORE_FAILED', 503, `${what} was not confirmed: ${detail}.`)
}

function isSettlement(value: unknown): value is SettlementView {
  return isRecord(value) && typeof value['settled'] === 'boolean'
}

function requireText(reservation: string): string {
  reservationText(reservation)
  return reservation
}

/** What becomes of a reservation that the server does not have. */
function unsettled(reason: 'posture' | 'refused'): SettlementView {
  return { settled: false, reason, charged: 0, givenBack: 0, owed: 0, costs: {} }
}

/** A typed client of the decision API, for Node and other runtimes with Fetch. */
import { type Address, readAddress } from './address.js'
import type {
  CallInput,
  CancelInput,
  CheckInput,
  DecisionView,
  ExplainedView,
  ExtendInput,
  RefundInput,
  ReserveInput,
  ResetInput,
  SettleInput,
  SettlementView,
} from './api-types.js'
import { DecisionError, InputError } from './errors.js'
import { exchange, type Fetch, tooLargeText } from './exchange.js'
import { isRecord, jsonOf, noAnswerText, problemIn, problemOf } from './read-problem.js'

/**
 * Far longer than a server takes that still decides. A program that holds a request of its own
 * while it waits sets less.
 */
const TIMEOUT_MS = 5000

export interface DecisionClientOptions extends Address {
  /** The URL of the decision API: `http://127.0.0.1:8081`. */
  readonly url: string
  /** `SLUICE_API_TOKEN` of the server, or the admin token; undefined if it has none. */
  readonly token?: string | undefined
  /** Sends the token over plain HTTP to other machines than this one too. @default false */
  readonly insecure?: boolean | undefined
  /** The time limit for a whole response. @default 5000 */
  readonly timeoutMs?: number | undefined
  /** @default fetch of the runtime */
  readonly fetch?: Fetch | undefined
}

/** Options of one request. */
export interface DecisionRequestOptions {
  /** Ends the request; its promise is rejected with the reason of the signal. */
  readonly signal?: AbortSignal | undefined
  /** In place of that of the client. */
  readonly timeoutMs?: number | undefined
}

/** Requests decisions of a Sluice server. */
export interface DecisionClient {
  /** Decides a call and charges its cost. A refusal is a value, not an error. */
  check(call: CheckInput, options?: DecisionRequestOptions): Promise<DecisionView>
  /**
   * Decides each of a list of at most 1,000 calls, in one request. The result of each is at its
   * position; one that failed is a `DecisionError`, and has no effect on the others.
   */
  checkMany(
    calls: readonly CheckInput[],
    options?: DecisionRequestOptions,
  ): Promise<readonly (DecisionView | DecisionError)[]>
  /** Decides a call without charging it. */
  peek(call: CallInput, options?: DecisionRequestOptions): Promise<DecisionView>
  /** The same for a list, as `checkMany`. */
  peekMany(
    calls: readonly CallInput[],
    options?: DecisionRequestOptions,
  ): Promise<readonly (DecisionView | DecisionError)[]>
  /** A peek with every rule: whether it matches and why, and what its limits have left. */
  explain(call: CallInput, options?: DecisionRequestOptions): Promise<ExplainedView>
  /** Refunds what a receipt lists; or, with the admin token, the cost of a call. */
  refund(refund: RefundInput, options?: DecisionRequestOptions): Promise<void>
  /** Decides a call whose costs are estimates, and reserves them. */
  reserve(call: ReserveInput, options?: DecisionRequestOptions): Promise<DecisionView>
  /** Charges what a reservation really used. May be sent again if it was not answered. */
  settle(settle: SettleInput, options?: DecisionRequestOptions): Promise<SettlementView>
  /** Reserves more under the same reservation, which gets a new handle. */
  extend(extend: ExtendInput, options?: DecisionRequestOptions): Promise<DecisionView>
  /** Gives a reservation back. */
  cancel(cancel: CancelInput, options?: DecisionRequestOptions): Promise<SettlementView>
  /** Deletes the counters of a caller. Needs the admin token. */
  reset(call: ResetInput, options?: DecisionRequestOptions): Promise<void>
}

/**
 * Methods reject with a `DecisionError` if the server refuses the request, with an
 * `UnreachableError` if it does not answer, and with an `InputError` for what cannot be sent. No
 * request is sent twice.
 *
 * @example
 * const client = createDecisionClient({ url: 'http://127.0.0.1:8081' })
 * const { allowed, retryAfterMs } = await client.check({ attributes: { user: 'u1' } })
 */
export function createDecisionClient(options: DecisionClientOptions): DecisionClient {
  const base = readAddress(options, 'http://127.0.0.1:8081')
  const post = (request: DecisionRequest) => sendOnce(request, base, options)
  const one = (request: DecisionRequest, field: string) =>
    post(request).then((answer) => requireField(answer, field, base))
  const many = (request: DecisionRequest, count: number) =>
    post(request).then((answer) => readResults(answer, count, base))
  return {
    check: (call, more) =>
      one({ verb: 'check', body: call, more }, 'allowed') as Promise<DecisionView>,
    checkMany: (calls, more) => many({ verb: 'check', body: calls, more }, calls.length),
    peek: (call, more) =>
      one({ verb: 'peek', body: call, more }, 'allowed') as Promise<DecisionView>,
    peekMany: (calls, more) => many({ verb: 'peek', body: calls, more }, calls.length),
    explain: (call, more) =>
      one({ verb: 'explain', body: call, more }, 'explain') as Promise<ExplainedView>,
    refund: async (refund, more) => {
      await one({ verb: 'refund', body: refund, more }, 'refunded')
    },
    reserve: (call, more) =>
      one({ verb: 'reserve', body: call, more }, 'allowed') as Promise<DecisionView>,
    settle: (settle, more) =>
      one({ verb: 'settle', body: settle, more }, 'settled') as Promise<SettlementView>,
    extend: (extend, more) =>
      one({ verb: 'extend', body: extend, more }, 'allowed') as Promise<DecisionView>,
    cancel: (cancel, more) =>
      one({ verb: 'cancel', body: cancel, more }, 'settled') as Promise<SettlementView>,
    reset: async (call, more) => {
      await one({ verb: 'reset', body: call, more }, 'reset')
    },
  }
}

interface DecisionRequest {
  readonly verb:
    | 'check'
    | 'peek'
    | 'explain'
    | 'refund'
    | 'reset'
    | 'reserve'
    | 'settle'
    | 'extend'
    | 'cancel'
  readonly body: unknown
  readonly more: DecisionRequestOptions | undefined
}

interface Answer {
  readonly response: Response
  readonly value: unknown
}

async function sendOnce(
  { verb, body, more }: DecisionRequest,
  base: string,
  { token, timeoutMs = TIMEOUT_MS, fetch: send }: DecisionClientOptions,
): Promise<Answer> {
  const sent = {
    api: 'decision',
    base,
    url: `${base}/v1/${verb}`,
    method: 'POST',
    headers: {
      Accept: 'application/json, application/problem+json',
      'Content-Type': 'application/json',
      ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
    },
    body: jsonText(body),
    timeoutMs: more?.timeoutMs ?? timeoutMs,
    signal: more?.signal,
    isChange: verb !== 'peek' && verb !== 'explain',
  } as const
  const { response, text } = await exchange(sent, send)
  if (text === undefined) throw unexpected(response, tooLargeText(base))
  if (!response.ok) throw new DecisionError(problemOf('decision', base, response, text))
  return { response, value: jsonOf(text) }
}

function jsonText(body: unknown): string {
  try {
    return JSON.stringify(body, requireFinite)
  } catch (error) {
    if (error instanceof InputError) throw error
    const found = error instanceof Error ? error.message : String(error)
    throw new InputError(`call: found what JSON cannot hold (${found}); accepted: text, numbers`)
  }
}

/** JSON writes such a number as null: the attribute would be absent, and another caller counted. */
function requireFinite(name: string, value: unknown): unknown {
  if (typeof value !== 'number' || Number.isFinite(value)) return value
  throw new InputError(`${name}: found ${value}; accepted: a finite number`)
}

/**
 * Accepts only what the operation returns: another server at the address that answers 200 to
 * everything must not be mistaken for an admission.
 */
function requireField({ response, value }: Answer, field: string, base: string): unknown {
  if (isRecord(value) && Object.hasOwn(value, field)) return value
  throw noAnswer(response, base)
}

function readResults(
  { response, value }: Answer,
  count: number,
  base: string,
): readonly (DecisionView | DecisionError)[] {
  if (!Array.isArray(value) || value.length !== count) throw noAnswer(response, base)
  return value.map((item: unknown) => {
    if (isRecord(item) && Object.hasOwn(item, 'allowed')) return item as unknown as DecisionView
    const problem = problemIn(item)
    if (problem === undefined) throw noAnswer(response, base)
    return new DecisionError(problem)
  })
}

function noAnswer(response: Response, base: string): DecisionError {
  const type = response.headers.get('content-type') ?? 'no type'
  const found = `${base} answered with ${type.slice(0, 100)} that`
  return unexpected(response, noAnswerText('decision', found))
}

function unexpected({ status }: Response, detail: string): DecisionError {
  return new DecisionError({ status, code: 'unexpected', detail })
}

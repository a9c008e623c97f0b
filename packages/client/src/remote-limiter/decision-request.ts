/** Sends one list to the decision API, and says what came of it. */
import { isRecord, jsonOf } from '../read-problem.js'
import { type Fetch, readText } from '../exchange.js'

export type Operation = 'check' | 'peek' | 'refund' | 'reserve' | 'settle' | 'extend' | 'cancel'

/**
 * Why the server did not decide. `unreachable`: it did not answer, or answered that it cannot at
 * present; `unauthorized`: it does not accept the token; `unexpected`: this is no decision API.
 */
export type Failure = 'unreachable' | 'unauthorized' | 'unexpected'

export type RequestResult =
  | { readonly items: readonly unknown[] }
  | { readonly failure: Failure; readonly detail: string }

export interface DecisionRequest {
  readonly base: string
  readonly token: string | undefined
  readonly fetch: Fetch
  readonly operation: Operation
  readonly texts: readonly string[]
  readonly signal: AbortSignal
}

/** Never rejects. */
export async function sendRequest(request: DecisionRequest): Promise<RequestResult> {
  const { base, token, operation, texts, signal } = request
  try {
    const response = await request.fetch(`${base}/v1/${operation}`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        ...(token !== undefined && { Authorization: `Bearer ${token}` }),
      },
      body: `[${texts.join(',')}]`,
      // The token is not sent to the target of a redirect.
      redirect: 'manual',
      signal,
    })
    // Read whole in any case, or the connection could not be used again.
    const value = jsonOf((await readText(response)) ?? '')
    if (!response.ok) return failureOf(response, value)
    if (Array.isArray(value) && value.length === texts.length && value.some(isAnswer))
      return { items: value }
    return { failure: 'unexpected', detail: 'the answer is not one of the decision API' }
  } catch (error) {
    return { failure: 'unreachable', detail: reasonOf(error) }
  }
}

/** Whether an item is one of the decision API; a server that echoes the list sends others. */
function isAnswer(item: unknown): boolean {
  return (
    isRecord(item) &&
    ['allowed', 'refunded', 'settled', 'status'].some((name) => Object.hasOwn(item, name))
  )
}

function failureOf({ status, type }: Response, value: unknown): RequestResult {
  const detail = isRecord(value) ? value['detail'] : undefined
  const said = `status ${status}${typeof detail === 'string' ? `: ${oneLine(detail)}` : ''}`
  if (status === 401 || status === 403) return { failure: 'unauthorized', detail: said }
  if (status >= 500 || PASSING.includes(status)) return { failure: 'unreachable', detail: said }
  const isRedirect = type === 'opaqueredirect' || (status >= 300 && status < 400)
  return { failure: 'unexpected', detail: isRedirect ? 'a redirect, which is not followed' : said }
}

/** A proxy may close an idle connection with 408, and limit its clients with 429. */
const PASSING: readonly number[] = [408, 429]

const SHOWN_MAX = 200

/** Text of a server, without characters that could forge a line of a log. */
export function oneLine(text: string): string {
  return text.slice(0, SHOWN_MAX).replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
}

/** Node reports the reason in `cause`. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error
  if (!(cause instanceof Error)) return String(cause)
  return 'code' in cause && typeof cause.code === 'string' ? cause.code : cause.message
}

/** The body of a refusal: RFC 9457 problem details with the types of the RateLimit draft. */
import type { Decision } from './decision.js'
import { retryAfterSeconds } from './headers.js'

export interface ProblemBody {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly 'violated-policies': readonly string[]
  readonly error: 'rate_limited'
  readonly retry_after_seconds?: number
}

export interface ProblemOptions {
  readonly jitterMs?: number | undefined
  /** The status of a refusal by posture: 429, because a 5xx makes balancers eject healthy nodes. */
  readonly postureStatus?: 429 | 503 | undefined
  /** The status of a shed call. @default 429, for the same reason */
  readonly shedStatus?: 429 | 503 | undefined
}

const TYPES = 'https://iana.org/assignments/http-problem-types'

export function problemBody(decision: Decision, options: ProblemOptions = {}): ProblemBody {
  const isReduced = decision.reason === 'posture' || decision.reason === 'shed'
  const retryAfter = retryAfterSeconds(decision, options.jitterMs)
  const refusing = decision.policies().filter(({ retryAfterMs }) => retryAfterMs !== 0)
  const body = {
    type: `${TYPES}#${isReduced ? 'temporary-reduced-capacity' : 'quota-exceeded'}`,
    title: isReduced ? 'Temporary Reduced Capacity' : 'Quota Exceeded',
    status: statusOf(decision, options),
    detail: detailOf(decision, retryAfter),
    'violated-policies': refusing.map(({ name }) => name),
    error: 'rate_limited' as const,
  }
  return retryAfter === null ? body : withRetryAfter(body, retryAfter)
}

/** Field by field, which takes a fraction of the time of a spread. */
function withRetryAfter(body: ProblemBody, seconds: number): ProblemBody {
  return {
    type: body.type,
    title: body.title,
    status: body.status,
    detail: body.detail,
    'violated-policies': body['violated-policies'],
    error: body.error,
    retry_after_seconds: seconds,
  }
}

function statusOf(
  { reason }: Decision,
  { postureStatus = 429, shedStatus = 429 }: ProblemOptions,
): number {
  if (reason === 'posture') return postureStatus
  return reason === 'shed' ? shedStatus : 429
}

function detailOf(decision: Decision, retryAfter: number | null): string {
  if (retryAfter === null) {
    if (decision.reason !== 'cost_exceeds_limit') return 'Too many requests. Waiting does not help.'
    return `This call costs more than the limit of ${decision.limit} ever holds. Waiting does not help.`
  }
  const seconds = secondsText(retryAfter)
  if (decision.reason === 'posture' || decision.reason === 'shed') {
    return `Capacity is reduced. Retry after ${seconds}.`
  }
  return `Too many requests. Retry after ${seconds}.`
}

/** The reason with which a WebSocket is closed when a message of its client is refused. */
export function closeReason(decision: Decision): string {
  const retryAfter = retryAfterSeconds(decision)
  return retryAfter === null
    ? 'Over the limit of messages'
    : `Retry after ${secondsText(retryAfter)}`
}

function secondsText(seconds: number): string {
  return `${seconds} second${seconds === 1 ? '' : 's'}`
}

/** Sends requests to the admin API, and repeats those that are answered 429. */
import { AdminError } from './errors.js'
import { exchange, type Fetch, tooLargeText } from './exchange.js'
import { isRecord, jsonOf, noAnswerText, problemOf } from './read-problem.js'

export const PREFIX = '/admin/v1'
const TIMEOUT_MS = 30_000
const RETRIES = 3
/** Longer waits are left to the caller. */
const RETRY_AFTER_S_MAX = 30

/** The value of `has` for a response that is text. */
export const YAML = 'yaml'

export interface SendOptions {
  /** The base URL, without a trailing slash. */
  readonly base: string
  readonly token: string | undefined
  /** The CSRF token of a session, sent with every change if there is no token. */
  readonly csrf?: (() => string | undefined) | undefined
  readonly fetch?: Fetch | undefined
  /** How often a request that was answered 429 is retried. @default 3 */
  readonly retries?: number | undefined
  /** The time limit for a whole response. @default 30000 */
  readonly timeoutMs?: number | undefined
  /** @default a timer of the system */
  readonly wait?: ((ms: number) => Promise<void>) | undefined
}

interface AdminRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** The path below /admin/v1, with a leading slash. */
  readonly path: string
  readonly query?: Query | undefined
  /** Sent as JSON, unless it is `text`. */
  readonly body?: unknown
  /** YAML or JSON as its author wrote it. */
  readonly text?: string | undefined
  readonly ifMatch?: ExpectedVersion | undefined
  /** Whether it changes something, so that a lost response leaves the result unknown. */
  readonly isChange?: boolean | undefined
  /** A field that every response of the route has; `YAML`: the response is text. */
  readonly has: string
}

type Query = Readonly<Record<string, string | number | boolean | undefined>>
/** The version that the writer has read; `*`: any version. */
export type ExpectedVersion = number | '*'
export type Send = (request: AdminRequest) => Promise<unknown>

export function createSend(options: SendOptions): Send {
  const { base, retries = RETRIES, wait = waitBySystem } = options
  return async (request) => {
    const url = `${base}${PREFIX}${request.path}${queryOf(request.query)}`
    for (let tries = 0; ; tries++) {
      const { response, text } = await sendOnce(url, request, options)
      if (response.ok) return readAnswer(request, base, response, text)
      const waitMs = retryAfterMs(response)
      // A 429 is sent before the request is processed, so a retry cannot make a change twice.
      if (waitMs === undefined || tries >= retries)
        throw new AdminError(problemOf('admin', base, response, text))
      await wait(waitMs)
    }
  }
}

async function sendOnce(
  url: string,
  request: AdminRequest,
  { base, token, csrf, fetch: send, timeoutMs = TIMEOUT_MS }: SendOptions,
): Promise<{ readonly response: Response; readonly text: string }> {
  const { method, body, isChange = false } = request
  const sent = {
    api: 'admin',
    base,
    url,
    method,
    headers: headersOf(request, token, csrf?.()),
    body: request.text ?? (body === undefined ? undefined : JSON.stringify(body)),
    timeoutMs,
    isChange,
  } as const
  const { response, text } = await exchange(sent, send)
  if (text !== undefined) return { response, text }
  const { status } = response
  throw new AdminError({ status, code: 'unexpected', detail: tooLargeText(base) })
}

function headersOf(
  { method, text, body, ifMatch }: AdminRequest,
  token: string | undefined,
  csrf: string | undefined,
) {
  const type = text === undefined ? 'application/json' : 'application/yaml'
  return {
    Accept: 'application/json, application/yaml, application/problem+json',
    ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
    ...(csrf === undefined || method === 'GET' ? {} : { 'X-Sluice-Csrf': csrf }),
    ...(text === undefined && body === undefined ? {} : { 'Content-Type': type }),
    ...(ifMatch === undefined ? {} : { 'If-Match': ifMatch === '*' ? '*' : `"${ifMatch}"` }),
  }
}

function queryOf(query: Query = {}): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === false ? [] : [[name, String(value)] as const],
  )
  return pairs.length === 0 ? '' : `?${new URLSearchParams(Object.fromEntries(pairs)).toString()}`
}

/**
 * Accepts only what the route returns: another server at the address that answers 200 to everything
 * must not be mistaken for a change that was made.
 */
function readAnswer(
  { has }: AdminRequest,
  base: string,
  response: Response,
  text: string,
): unknown {
  const type = response.headers.get('content-type') ?? 'no type'
  if (has === YAML && /yaml/i.test(type)) return text
  const value = has === YAML ? undefined : jsonOf(text)
  if (isRecord(value) && Object.hasOwn(value, has)) return value
  const detail = noAnswerText('admin', `${base} answered with ${type.slice(0, 100)} that`)
  throw new AdminError({ status: response.status, code: 'unexpected', detail })
}

/** Undefined: no retry. */
function retryAfterMs(response: Response): number | undefined {
  if (response.status !== 429) return undefined
  const header = response.headers.get('retry-after') ?? ''
  const seconds = /^\d{1,9}$/.test(header) ? Number(header) : 1
  return seconds > RETRY_AFTER_S_MAX ? undefined : seconds * 1000
}

export const waitBySystem = (ms: number) =>
  new Promise<void>((resolve) => void setTimeout(resolve, ms))

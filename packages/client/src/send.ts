/** Sends one request to the admin API, with bounds on its time and on the size of the response. */
import { AdminError, UnreachableError } from './errors.js'
import { errorOf, isRecord, jsonOf } from './read-problem.js'

export const PREFIX = '/admin/v1'
const TIMEOUT_MS = 30_000
const RETRIES = 3
/** Longer waits are left to the caller. */
const RETRY_AFTER_S_MAX = 30
/** A whole set has up to 16 Mi characters as text, and as JSON may take a few times that. */
const ANSWER_BYTES_MAX = 64 * 1024 * 1024

/** The value of `has` for a response that is text. */
export const YAML = 'yaml'

export type Fetch = (url: string, init: RequestInit) => Promise<Response>

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
      if (waitMs === undefined || tries >= retries) throw errorOf(base, response, text)
      await wait(waitMs)
    }
  }
}

async function sendOnce(
  url: string,
  request: AdminRequest,
  { base, token, csrf, fetch: send = fetchBySystem, timeoutMs = TIMEOUT_MS }: SendOptions,
): Promise<{ readonly response: Response; readonly text: string }> {
  const body =
    request.text ?? (request.body === undefined ? undefined : JSON.stringify(request.body))
  let response: Response | undefined
  try {
    response = await send(url, {
      method: request.method,
      headers: headersOf(request, token, csrf?.()),
      // The token is not sent to the target of a redirect.
      redirect: 'manual',
      signal: AbortSignal.timeout(timeoutMs),
      ...(body === undefined ? {} : { body }),
    })
    const text = await readText(response)
    if (text !== undefined) return { response, text }
  } catch (error) {
    throw unreachable(error, { base, request, timeoutMs, hasBegun: response !== undefined })
  }
  const size = `${ANSWER_BYTES_MAX / 1024 / 1024} MiB`
  const detail = `${base} answered with more than ${size}. Ask for a smaller page`
  throw new AdminError({ status: response.status, code: 'unexpected', detail })
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

/** Undefined if it exceeds the maximum size. */
export async function readText(response: Response): Promise<string | undefined> {
  if (response.body === null) return ''
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  let bytes = 0
  let text = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    bytes += value.byteLength
    if (bytes > ANSWER_BYTES_MAX) {
      await reader.cancel()
      return undefined
    }
    text += decoder.decode(value, { stream: true })
  }
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
  const detail = `${base} answered with ${type.slice(0, 100)} that is no answer of the admin API. Is this the admin listener of Sluice?`
  throw new AdminError({ status: response.status, code: 'unexpected', detail })
}

/** Undefined: no retry. */
function retryAfterMs(response: Response): number | undefined {
  if (response.status !== 429) return undefined
  const header = response.headers.get('retry-after') ?? ''
  const seconds = /^\d{1,9}$/.test(header) ? Number(header) : 1
  return seconds > RETRY_AFTER_S_MAX ? undefined : seconds * 1000
}

interface FailureContext {
  readonly base: string
  readonly request: AdminRequest
  readonly timeoutMs: number
  /** Whether the head of a response arrived. */
  readonly hasBegun: boolean
}

/** Failures before anything was sent: such a change was not made. */
const UNSENT =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|UND_ERR_CONNECT_TIMEOUT|ERR_TLS_.*|.*CERT.*|DEPTH_ZERO.*|UNABLE_TO_.*|ERR_SSL_.*)$/

function unreachable(error: unknown, failed: FailureContext): UnreachableError {
  const { base, request, timeoutMs, hasBegun } = failed
  const code = codeOf(error)
  const isUncertain = request.isChange === true && (hasBegun || !UNSENT.test(code))
  const isTimeout = error instanceof Error && error.name === 'TimeoutError'
  const why = isTimeout ? `no answer within ${timeoutMs / 1000} s` : code || messageOf(error)
  const then = isUncertain
    ? 'Whether the change was made is not known: look before you try again'
    : 'Is `sluice serve` running, and is this the address of its admin listener?'
  const message = `Could not reach the admin API at ${base}: ${why}. ${then}`
  return new UnreachableError(message, { cause: error, url: base, isUncertain })
}

/** Node reports the reason in `cause`; browsers hide it on purpose. */
function codeOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined
  for (const thrown of [cause, error]) {
    if (thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'string') {
      return thrown.code
    }
  }
  return ''
}

function messageOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined
  if (cause instanceof Error) return cause.message
  return error instanceof Error ? error.message : String(error)
}

// Not read once and stored: a page may replace it, and it must be called as a function of the page.
export const fetchBySystem: Fetch = (url, init) => fetch(url, init)

export const waitBySystem = (ms: number) =>
  new Promise<void>((resolve) => void setTimeout(resolve, ms))

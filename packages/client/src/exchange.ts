/** Sends one request and reads its whole response, with bounds on its time and size. */
import { type ApiName, InputError, UnreachableError } from './errors.js'

/** A whole set has up to 16 Mi characters as text, and as JSON may take a few times that. */
const ANSWER_BYTES_MAX = 64 * 1024 * 1024

export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** What one request to an API of Sluice needs. */
export interface ExchangeRequest {
  readonly api: ApiName
  /** The base URL, for messages. */
  readonly base: string
  readonly url: string
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  readonly timeoutMs: number
  /** Ends the request; the promise is then rejected with its reason. */
  readonly signal?: AbortSignal | undefined
  /** Whether it changes something, so that a lost response leaves the result unknown. */
  readonly isChange: boolean
}

export interface Exchanged {
  readonly response: Response
  /** Undefined if it exceeds the maximum size. */
  readonly text: string | undefined
}

/** Rejects with an `UnreachableError` if there is no whole response in time. */
export async function exchange(
  request: ExchangeRequest,
  send: Fetch = fetchBySystem,
): Promise<Exchanged> {
  const { method, headers, body, signal } = request
  signal?.throwIfAborted()
  const limit = limitTime(request)
  let response: Response | undefined
  try {
    response = await send(request.url, {
      method,
      headers,
      // The token is not sent to the target of a redirect.
      redirect: 'manual',
      signal: limit.signal,
      ...(body === undefined ? {} : { body }),
    })
    return { response, text: await readText(response) }
  } catch (error) {
    signal?.throwIfAborted()
    throw unreachable(error, request, response !== undefined)
  } finally {
    limit.stop()
  }
}

/** A longer timer would fire at once. */
const TIMEOUT_MS_MAX = 2 ** 31 - 1

/**
 * The signal that ends a request: at its time limit, or with the given one. `AbortSignal.any` with
 * `AbortSignal.timeout` would be shorter, but on Node 20 every request leaves something with a
 * given signal that lives on, and a timeout may be collected as garbage before it is reached.
 */
function limitTime({ timeoutMs, signal }: ExchangeRequest) {
  if (!(timeoutMs >= 0 && timeoutMs <= TIMEOUT_MS_MAX)) {
    throw new InputError(`timeoutMs: found ${timeoutMs}; accepted: 0 to ${TIMEOUT_MS_MAX}`)
  }
  const controller = new AbortController()
  const timer = setTimeout(() => {
    controller.abort(new DOMException('The request reached its time limit', 'TimeoutError'))
  }, timeoutMs)
  const leave = signal && onAbort(signal, () => controller.abort(signal.reason))
  return {
    signal: controller.signal,
    stop: () => {
      clearTimeout(timer)
      leave?.()
    },
  }
}

const abortListeners = new WeakMap<AbortSignal, Set<() => void>>()

/**
 * Runs a function when a signal aborts; returns a function that removes it. All requests with one
 * signal share one listener, because Node warns of more than ten.
 */
function onAbort(signal: AbortSignal, run: () => void): () => void {
  const listeners = abortListeners.get(signal) ?? new Set()
  if (!abortListeners.has(signal)) {
    abortListeners.set(signal, listeners)
    signal.addEventListener('abort', () => {
      for (const listener of listeners) listener()
    })
  }
  listeners.add(run)
  return () => void listeners.delete(run)
}

/** Says that a response exceeds the maximum size. */
export function tooLargeText(base: string): string {
  const size = `${ANSWER_BYTES_MAX / 1024 / 1024} MiB`
  return `${base} answered with more than ${size}. Ask for a smaller page`
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

/** Failures before anything was sent: such a change was not made. */
const UNSENT =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|UND_ERR_CONNECT_TIMEOUT|ERR_TLS_.*|.*CERT.*|DEPTH_ZERO.*|UNABLE_TO_.*|ERR_SSL_.*)$/

const UNCERTAIN: Readonly<Record<ApiName, string>> = {
  admin: 'Whether the change was made is not known: look before you try again',
  decision: 'Whether the call was counted is not known',
}

/** `hasBegun`: the head of a response arrived. */
function unreachable(
  error: unknown,
  { api, base, timeoutMs, isChange }: ExchangeRequest,
  hasBegun: boolean,
): UnreachableError {
  const code = codeOf(error)
  const isUncertain = isChange && (hasBegun || !UNSENT.test(code))
  const isTimeout = error instanceof Error && error.name === 'TimeoutError'
  const why = isTimeout ? `no answer within ${timeoutMs / 1000} s` : code || messageOf(error)
  const then = isUncertain
    ? UNCERTAIN[api]
    : `Is \`sluice serve\` running, and is this the address of its ${api} listener?`
  const message = `Could not reach the ${api} API at ${base}: ${why}. ${then}`
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

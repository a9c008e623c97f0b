/** Follows the event stream of the server, and reconnects whenever the connection is lost. */
import { AdminError } from './errors.js'
import { fetchBySystem, readText } from './exchange.js'
import { createEventReader } from './read-events.js'
import { problemOf } from './read-problem.js'
import { PREFIX, type SendOptions, waitBySystem } from './send.js'
import type { EventView } from './api-types.js'

const BACKOFF_MS_MIN = 500
const BACKOFF_MS_MAX = 10_000
/**
 * An event arrives every two seconds; after this time without one the connection counts as lost.
 */
const SILENCE_MS_MAX = 15_000
const RANDOM_RANGE = 2 ** 32

export interface EventsOptions {
  readonly onEvent: (event: EventView) => void
  /** `open`: events arrive from now on; `lost`: none arrive until it is open again. */
  readonly onState?: ((state: 'open' | 'lost') => void) | undefined
  /** Stops following. */
  readonly signal?: AbortSignal | undefined
}

type ConnectionOptions = Pick<SendOptions, 'base' | 'token' | 'fetch' | 'wait'>

/**
 * Resolves when `signal` is aborted; rejects with an `AdminError` only if the server refuses this
 * token or session. Events during a lost connection are not repeated: read the current state again.
 */
export async function followEvents(
  connection: ConnectionOptions,
  options: EventsOptions,
): Promise<void> {
  const { onState, signal } = options
  const isOver = () => signal?.aborted === true
  let failures = 0
  while (!isOver()) {
    const wasOpen = await followOnce(connection, options)
    if (isOver()) return
    failures = wasOpen ? 0 : failures + 1
    onState?.('lost')
    await pause(backoffMs(failures), connection, signal)
  }
}

/** Whether the stream was open at all. */
async function followOnce(
  connection: ConnectionOptions,
  { onEvent, onState, signal }: EventsOptions,
): Promise<boolean> {
  const controller = new AbortController()
  const end = () => controller.abort()
  signal?.addEventListener('abort', end)
  let silence = setTimeout(end, SILENCE_MS_MAX)
  let isOpen = false
  try {
    const reader = await openStream(connection, controller.signal)
    controller.signal.addEventListener('abort', () => void reader?.cancel().catch(() => {}))
    const decoder = new TextDecoder()
    const events = createEventReader(onEvent)
    for (;;) {
      const chunk = await readChunk(reader)
      if (chunk === undefined) return isOpen
      clearTimeout(silence)
      silence = setTimeout(end, SILENCE_MS_MAX)
      if (!isOpen) onState?.('open')
      isOpen = true
      if (!events.push(decoder.decode(chunk, { stream: true }))) return isOpen
    }
  } finally {
    clearTimeout(silence)
    signal?.removeEventListener('abort', end)
    controller.abort()
  }
}

type Reader = ReadableStreamDefaultReader<Uint8Array>

/** Undefined if there is no stream now, but may be one later. */
async function openStream(
  { base, token, fetch: send = fetchBySystem }: ConnectionOptions,
  signal: AbortSignal,
): Promise<Reader | undefined> {
  let response: Response
  try {
    response = await send(`${base}${PREFIX}/events`, {
      headers: {
        Accept: 'text/event-stream',
        ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
      },
      redirect: 'manual',
      signal,
    })
    if (response.ok && isStream(response)) return response.body?.getReader()
    if (response.status !== 401 && response.status !== 403) return undefined
  } catch {
    return undefined
  }
  const text = (await readText(response).catch(() => '')) ?? ''
  throw new AdminError(problemOf('admin', base, response, text))
}

function isStream({ headers }: Response): boolean {
  return headers.get('content-type')?.startsWith('text/event-stream') === true
}

/** Undefined if the stream ended or the connection was lost. */
async function readChunk(reader: Reader | undefined): Promise<Uint8Array | undefined> {
  try {
    return (await reader?.read())?.value
  } catch {
    return undefined
  }
}

/** Doubles with each failure, with jitter, so that clients of one server do not retry together. */
function backoffMs(failures: number): number {
  const whole = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2 ** Math.min(failures, 10))
  const [drawn = 0] = crypto.getRandomValues(new Uint32Array(1))
  return whole * (0.5 + drawn / RANDOM_RANGE / 2)
}

async function pause(
  ms: number,
  { wait = waitBySystem }: ConnectionOptions,
  signal: AbortSignal | undefined,
): Promise<void> {
  let end = () => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  signal?.addEventListener('abort', end)
  await Promise.race([wait(ms), ended])
  signal?.removeEventListener('abort', end)
}

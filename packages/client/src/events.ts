/** Follows what the server tells as it happens, and comes back whenever the way there is lost. */
import { createEventReader } from './read-events.js'
import { errorOf } from './read-problem.js'
import { fetchBySystem, PREFIX, readText, type SendOptions, waitBySystem } from './send.js'
import type { EventView } from './api-types.js'

const BACKOFF_MS_MIN = 500
const BACKOFF_MS_MAX = 10_000
/** Something comes every two seconds: where nothing does for so long, nobody is there any more. */
const SILENCE_MS_MAX = 15_000
const RANDOM_RANGE = 2 ** 32

export interface EventsOptions {
  readonly onEvent: (event: EventView) => void
  /** `open`: events come from now on; `lost`: none do, until it is open again. */
  readonly onState?: ((state: 'open' | 'lost') => void) | undefined
  /** Ends it. */
  readonly signal?: AbortSignal | undefined
}

type ConnectionOptions = Pick<SendOptions, 'base' | 'token' | 'fetch' | 'wait'>

/**
 * Resolves when `signal` ends it; rejects with an `AdminError` only where the server says that this
 * token or session may not. What happened while it was lost is not told again: read what you show.
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

/** Whether it was open at all. */
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

/** Undefined where there is none now, and may be one later. */
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
  throw errorOf(base, response, (await readText(response).catch(() => '')) ?? '')
}

function isStream({ headers }: Response): boolean {
  return headers.get('content-type')?.startsWith('text/event-stream') === true
}

/** Undefined: that was all, or the way was lost. */
async function readChunk(reader: Reader | undefined): Promise<Uint8Array | undefined> {
  try {
    return (await reader?.read())?.value
  } catch {
    return undefined
  }
}

/** Doubled with each failure, and never the same for all who lost the same server. */
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

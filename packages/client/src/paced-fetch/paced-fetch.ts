/**
 * A fetch that slows down before it is refused: it spreads what the server says is left over the
 * time until more is there, and retries what is safe to retry.
 */
import { CallGroup, type SentCall, setBounded, type Signal } from './call-group.js'
import { systemClock } from './clock.js'
import {
  type PacedFetch,
  PacedFetchError,
  type PacedFetchOptions,
  type PacedFetchStats,
  type PacedInit,
  type PacedInput,
  type PaceEvents,
} from './paced-fetch-options.js'
import { type RateLimitPolicy, readRateLimit } from './read-rate-limit.js'

type FetchFunction = (input: PacedInput, init?: RequestInit) => Promise<Response>

/** Relative URLs are resolved against the page, in browsers. */
type Page = { readonly location?: { readonly href: string } }

/** The message that tabs send to each other after an answer; `key` is a digest. */
interface SharedAnswer {
  readonly key: string
  readonly route: string
  readonly policies: readonly RateLimitPolicy[]
  readonly isRefusal: boolean
}

interface Answer extends SharedAnswer {
  /** Undefined if the call failed, with `error`. */
  readonly response?: Response | undefined
  readonly error?: unknown
  /** The time for which the server asks callers to wait. */
  readonly waitMs: number
}

const IDEMPOTENT = /^(?:GET|HEAD|OPTIONS|PUT|DELETE|TRACE)$/i
const RETRIED_STATUSES: readonly number[] = [429, 502, 503, 504]
const BACKOFF_MS = 1000
const BACKOFF_MS_MAX = 30_000
/** GitHub asks for a minute after a refusal without a time. */
const GITHUB_WAIT_MS = 60_000

/** A short text for the credentials, because events and errors must not show them. */
function hashOf(text: string): string {
  let hash = 0
  for (const character of text) hash = (Math.imul(hash, 31) + (character.codePointAt(0) ?? 0)) | 0
  return `#${hash >>> 0}`
}

const CREDENTIALS: readonly string[] = ['authorization', 'x-api-key', 'api-key']

const credentialsOf = (headers: Headers) => CREDENTIALS.map((name) => headers.get(name)).join('\n')

/** A text that is the same in all tabs, and from which none can read the credentials. */
async function digestOf(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))
  return new Uint8Array(digest).join()
}

const isAmount = (value: unknown) =>
  value === undefined || (typeof value === 'number' && value >= 0 && value < Infinity)

function isPolicy(data: unknown): data is RateLimitPolicy {
  const { name, remaining, limit, windowMs, resetMs, kind } = (data ?? {}) as RateLimitPolicy
  return (
    typeof name === 'string' &&
    remaining !== undefined &&
    [remaining, limit, windowMs, resetMs].every(isAmount) &&
    (kind === undefined || kind === 'bucket')
  )
}

/** Another tab may run another version, and other programs may use the channel. */
function isShared(data: unknown): data is SharedAnswer {
  const { key, route, policies } = (data ?? {}) as SharedAnswer
  return (
    [key, route].every((text) => typeof text === 'string') &&
    Array.isArray(policies) &&
    policies.every(isPolicy)
  )
}

/** The first two segments of the path, which is how APIs divide their limits. */
const routeOf = ({ pathname }: URL) => pathname.split('/', 3).join('/')

/** Whether a body can be read only once. Node also accepts its own streams and generators. */
const isStream = (body: object | string) =>
  typeof body === 'object' && ('getReader' in body || Symbol.asyncIterator in body)

/** Sets the signal of the second argument of fetch, which may be a Request without own fields. */
const withSignal = (init: RequestInit, signal: AbortSignal | null): RequestInit =>
  init instanceof Request ? new Request(init, { signal }) : { ...init, signal }

/** Ends the wait for an answer with the signal, also if fetch does not look at it. */
function untilAborted(answer: Promise<Response>, signal: Signal): Promise<Response> {
  if (!signal) return answer
  return new Promise((resolve, reject) => {
    const leave = () => reject(signal.reason)
    if (signal.aborted) leave()
    signal.addEventListener('abort', leave, { once: true })
    const stop = () => signal.removeEventListener('abort', leave)
    answer.finally(stop).then(resolve, reject)
  })
}

class Fetcher {
  readonly counts = { sent: 0, answered: 0, refused: 0, retried: 0, dropped: 0 }
  readonly groups = new Map<string, CallGroup>()
  readonly listeners = new Map<string, Set<(event: never) => void>>()
  channel: InstanceType<typeof BroadcastChannel> | undefined
  readonly #fetch: FetchFunction
  readonly #options: PacedFetchOptions
  readonly #clock
  readonly #random
  readonly #digests = new Map<string, Promise<string>>()

  constructor(fetch: FetchFunction, options: PacedFetchOptions) {
    this.#fetch = fetch
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#random = options.random ?? Math.random
    // Pages without TLS have no digests, and share nothing.
    if (!options.channel || !('subtle' in crypto)) return
    this.channel = new BroadcastChannel(options.channel)
    this.channel.addEventListener('message', (event) => {
      const { data } = event as unknown as { data: unknown }
      if (!isShared(data)) return
      const group = this.groupOf(data.key)
      group.recordAnswer(data.route, data.policies, data.isRefusal === true)
      group.pump()
    })
  }

  async call(input: PacedInput, init: PacedInit): Promise<Response> {
    const { pace = {} } = init
    const isRequest = typeof input === 'object' && 'headers' in input
    const request = isRequest ? input : undefined
    const url = new URL(isRequest ? input.url : input, (globalThis as Page).location?.href)
    const headers = new Headers(init.headers ?? request?.headers)
    const canRetry =
      (init.body ? !isStream(init.body) : !request?.body) &&
      (IDEMPOTENT.test(init.method ?? request?.method ?? 'GET') || headers.has('idempotency-key'))
    const credentials = credentialsOf(headers)
    const key = this.#options.key?.({ url, headers })
    // Credentials that differ never share a pace: they are compared whole, or by a digest.
    const id = key ?? `${url.origin}\n${credentials}`
    const group = this.groupOf(this.channel ? await this.digest(id) : id)
    group.key = key ?? url.origin + (credentials.trim() && hashOf(credentials))
    const given = init.signal ?? request?.signal
    const time = this.limitTime(given, pace.deadlineMs ?? this.#options.deadlineMs)
    const { signal } = time
    try {
      for (let attempt = 0; ; attempt++) {
        const route = routeOf(url)
        const sent = await group.turn(route, pace.priority ?? 0, signal)
        // Called as a function, because the fetch of browsers refuses to be a method of others.
        const fetch = this.#fetch
        const send = () =>
          untilAborted(
            fetch(input, signal === given ? init : withSignal(init, signal ?? null)),
            signal,
          )
        const answer = await this.send(group, route, send, sent)
        const isLast = !canRetry || attempt >= (this.#options.retries ?? 3)
        const waitMs = this.settle(group, answer, attempt)
        group.pump()
        const { response, error } = answer
        if (signal?.aborted) throw signal.reason
        if (waitMs === undefined || isLast || !this.mayRetry(group, waitMs, time.endsAt)) {
          if (response) return response
          throw error
        }
        this.counts.retried++
        this.emit('retried', { key: group.key, attempt: attempt + 1, waitMs })
        void response?.body?.cancel().catch(() => {})
        await this.pause(waitMs, signal)
      }
    } catch (error) {
      if (error instanceof PacedFetchError) this.counts.dropped++
      throw error
    } finally {
      time.stop()
    }
  }

  emit<Name extends keyof PaceEvents>(name: Name, event: PaceEvents[Name]): void {
    for (const listener of this.listeners.get(name) ?? []) {
      try {
        listener(event as never)
      } catch (error) {
        // A mistake in a listener must not end a call, or leave one counted as in flight.
        console.error(`paced fetch: listener of "${name}" failed`, error)
      }
    }
  }

  stats(): PacedFetchStats {
    let waiting = 0
    let inFlight = 0
    for (const group of this.groups.values()) {
      waiting += group.queue.length
      inFlight += group.inFlight
    }
    return { ...this.counts, waiting, inFlight }
  }

  /** Other tabs see a digest. It is kept, because calls would overtake each other meanwhile. */
  private digest(text: string): Promise<string> {
    const digests = this.#digests
    return setBounded(digests, text, digests.get(text) ?? digestOf(text))
  }

  private groupOf(key: string): CallGroup {
    const { maxQueue = 1000, maxInFlight = 64 } = this.#options
    const emit: Fetcher['emit'] = (name, event) => this.emit(name, event)
    const deps = { clock: this.#clock, random: this.#random, maxQueue, maxInFlight, emit }
    const group = this.groups.get(key) ?? new CallGroup(key, deps)
    return setBounded(this.groups, key, group, ({ isUsed }) => isUsed)
  }

  /** Sends once, and learns from the answer. */
  private async send(
    group: CallGroup,
    route: string,
    send: () => Promise<Response>,
    sent: SentCall,
  ): Promise<Answer> {
    const { key } = group
    const { counts, channel } = this
    counts.sent++
    try {
      const response = await send()
      const { status, headers } = response
      const clock = this.#clock
      const reading = readRateLimit(headers, clock.date?.() ?? clock.now())
      const { policies, retryAfterMs } = reading
      const isOut = policies[0]?.remaining === 0
      // GitHub also refuses with 403, which without these signs means something else.
      const isRefusal = status === 429 || (status === 403 && (retryAfterMs !== undefined || isOut))
      const isVague = isRefusal && !isOut && headers.has('x-github-request-id')
      counts.answered++
      if (isRefusal) counts.refused++
      const shared: SharedAnswer = { key: group.id, route, policies, isRefusal }
      group.recordAnswer(route, policies, isRefusal, sent, isRefusal ? retryAfterMs : undefined)
      channel?.postMessage(shared)
      this.emit('answered', { key, status, reading })
      return { ...shared, response, waitMs: retryAfterMs ?? (isVague ? GITHUB_WAIT_MS : 0) }
    } catch (error) {
      return { key, route, policies: [], isRefusal: false, waitMs: 0, error }
    } finally {
      group.recordEnd()
    }
  }

  /** Holds calls back as the server asks. Returns the wait before a retry; undefined: none. */
  private settle(group: CallGroup, answer: Answer, attempt: number): number | undefined {
    const { response, policies, isRefusal, waitMs } = answer
    if (response && !isRefusal && !RETRIED_STATUSES.includes(response.status)) {
      group.earnRetry(this.#options.retryRatio ?? 0.1)
      return undefined
    }
    // Full jitter, or callers that were refused together would come back together.
    const jitterMs = this.#random() * Math.min(BACKOFF_MS_MAX, BACKOFF_MS * 2 ** attempt)
    const totalMs = waitMs + jitterMs
    const { key } = group
    if (isRefusal && response) {
      this.emit('refused', { key, status: response.status, waitMs: totalMs })
    }
    // A 5xx is no refusal: it holds back other calls only if the server asks for that.
    const spent = isRefusal ? policies.filter(({ remaining }) => remaining < 1) : []
    if (isRefusal || waitMs) group.hold(spent, this.#clock.now() + totalMs)
    return totalMs
  }

  /** Takes a retry from the budget, if it can be made in time. */
  private mayRetry(group: CallGroup, waitMs: number, endsAt: number): boolean {
    if (group.retries < 1 || this.#clock.now() + waitMs > endsAt) return false
    group.retries--
    return true
  }

  /** The signal that ends a call: the given one, its deadline, or both. */
  private limitTime(given: Signal, ms: number | undefined) {
    if (ms === undefined) return { signal: given, endsAt: Number.POSITIVE_INFINITY, stop: () => {} }
    const controller = new AbortController()
    const stop = this.#clock.after(ms, () =>
      controller.abort(new PacedFetchError('deadline', `No response within ${ms} ms.`)),
    )
    const signal = given ? AbortSignal.any([given, controller.signal]) : controller.signal
    return { signal, endsAt: this.#clock.now() + ms, stop }
  }

  private pause(ms: number, signal: Signal): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        cancel()
        reject(signal?.reason)
      }
      const cancel = this.#clock.after(ms, () => {
        signal?.removeEventListener('abort', leave)
        resolve()
      })
      if (signal?.aborted) return leave()
      signal?.addEventListener('abort', leave, { once: true })
    })
  }
}

/**
 * Wraps fetch so that calls are paced by the rate limit headers of the responses.
 *
 * @example
 * const paced = createPacedFetch(fetch)
 * const response = await paced('https://api.example.com/orders', { pace: { deadlineMs: 5000 } })
 */
export function createPacedFetch(
  fetch: FetchFunction,
  options: PacedFetchOptions = {},
): PacedFetch {
  const fetcher = new Fetcher(fetch, options)
  const { listeners } = fetcher
  return Object.assign((input: PacedInput, init?: PacedInit) => fetcher.call(input, init ?? {}), {
    on: (name: string, listener: (event: never) => void) => {
      const set = listeners.get(name) ?? new Set()
      listeners.set(name, set.add(listener))
      return () => void set.delete(listener)
    },
    stats: () => fetcher.stats(),
    close: () => {
      fetcher.channel?.close()
      fetcher.channel = undefined
    },
  })
}

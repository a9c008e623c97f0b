/** A remote limiter in virtual time, with a server whose answers a test gives by hand. */
import type { RemoteDecision } from './decision-types.js'
import {
  createRemoteLimiter,
  type RemoteLimiter,
  type RemoteLimiterDeps,
} from './remote-limiter.js'
import type { RemoteLimiterOptions } from './remote-options.js'

/** A request that waits for its answer. */
export interface SentRequest {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly items: readonly Readonly<Record<string, unknown>>[]
  readonly bytes: number
  isAborted(): boolean
  /** Answers each item by this function, or the request by a response. */
  answer(item?: (item: Readonly<Record<string, unknown>>, index: number) => object): Promise<void>
  respond(status: number, body: unknown): Promise<void>
  fail(code: string): Promise<void>
}

export const DECISION = {
  allowed: true,
  reason: 'within',
  rule: 'per-user',
  limitName: 'main',
  limit: 2,
  remaining: 1,
  resetAfterMs: 30_000,
  retryAfterMs: 0,
  delayMs: 0,
  shadow: [],
  source: 'store',
}

export const user = (name: string) => ({ attributes: { user: name } })
export const POSTURE = { reason: 'posture', source: 'posture' }

/** Makes calls in one turn, and keeps their results in order. */
export function collect(promises: readonly Promise<RemoteDecision>[]) {
  const found: (RemoteDecision | Error | undefined)[] = promises.map(() => undefined)
  promises.forEach((promise, index) => {
    promise.then(
      (decision) => (found[index] = decision),
      (error: Error) => (found[index] = error),
    )
  })
  return found
}

export class VirtualServer {
  readonly requests: SentRequest[] = []
  readonly logged: string[] = []
  nowMs = 0
  /** Timers that are due later, in no order. */
  #timers: { readonly dueMs: number; readonly run: () => void }[] = []
  #endOfTurn: (() => void)[] = []
  #afterRead: (() => void)[] = []

  /** How many timers run. */
  get timers(): number {
    return this.#timers.length
  }

  limiter(options: Partial<RemoteLimiterOptions> = {}): RemoteLimiter {
    const log = (message: string) => void this.logged.push(message)
    return createRemoteLimiter(
      {
        url: 'http://127.0.0.1:8081',
        fetch: (url, init) => this.receive(url, init),
        logger: { warn: log, error: log },
        ...options,
      },
      this.deps(),
    )
  }

  /** The request that was sent last. */
  last(): SentRequest {
    const request = this.requests.at(-1)
    if (request === undefined) throw new Error('nothing was sent')
    return request
  }

  /** Ends the turn: what was asked in it is sent. */
  async endTurn(): Promise<void> {
    for (const run of this.#endOfTurn.splice(0)) run()
    await drain()
  }

  /** Runs timers up to a later time, each followed by a read of the sockets. */
  async advance(ms: number, beforeRead: () => Promise<void> = () => Promise.resolve()) {
    this.nowMs += ms
    const due = this.#timers.filter(({ dueMs }) => dueMs <= this.nowMs)
    this.#timers = this.#timers.filter((timer) => !due.includes(timer))
    for (const { run } of due.toSorted((a, b) => a.dueMs - b.dueMs)) run()
    await beforeRead()
    for (const run of this.#afterRead.splice(0)) run()
    await drain()
  }

  private deps(): RemoteLimiterDeps {
    return {
      nowMs: () => this.nowMs,
      after: (ms, run) => {
        const timer = { dueMs: this.nowMs + ms, run }
        this.#timers.push(timer)
        return () => {
          this.#timers = this.#timers.filter((each) => each !== timer)
        }
      },
      endOfTurn: (run) => void this.#endOfTurn.push(run),
      afterRead: (run) => void this.#afterRead.push(run),
      random: () => 0.5,
    }
  }

  private receive(url: string, init: RequestInit): Promise<Response> {
    return new Promise((resolve, reject) => this.keep(url, init, resolve, reject))
  }

  private keep(
    url: string,
    init: RequestInit,
    resolve: (response: Response) => void,
    reject: (error: Error) => void,
  ): void {
    const body = typeof init.body === 'string' ? init.body : ''
    const items = JSON.parse(body) as SentRequest['items']
    const respond = async (status: number, value: unknown) => {
      resolve(new Response(JSON.stringify(value), { status }))
      await drain()
    }
    init.signal?.addEventListener('abort', () => reject(new Error('aborted')))
    this.requests.push({
      path: new URL(url).pathname,
      headers: init.headers as SentRequest['headers'],
      items,
      bytes: new TextEncoder().encode(body).length,
      isAborted: () => init.signal?.aborted === true,
      respond,
      answer: (item = () => DECISION) => respond(200, items.map(item)),
      fail: async (code) => {
        reject(new TypeError('fetch failed', { cause: Object.assign(new Error(code), { code }) }))
        await drain()
      },
    })
  }
}

/** Runs all microtasks that are ready, and those that reading a body takes. */
async function drain(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
}

/** All calls that share limits: their queue, and the pace of each limit. */
import type { PaceClock } from './clock.js'
import { createPace, dueAt, recordAnswer, recordSend, type Pace, type CountedCall } from './pace.js'
import { PacedFetchError, type PaceEvents } from './paced-fetch-options.js'
import type { RateLimitPolicy } from './read-rate-limit.js'

export type Signal = AbortSignal | null | undefined

export interface GroupDeps {
  readonly clock: PaceClock
  readonly random: () => number
  readonly maxQueue: number
  readonly maxInFlight: number
  readonly emit: <Name extends keyof PaceEvents>(name: Name, event: PaceEvents[Name]) => void
}

/** A call that was sent, as the pace of each of its limits counts it. */
export type SentCall = ReadonlyMap<Pace, CountedCall>

interface Call {
  readonly route: string
  readonly priority: number
  readonly queuedAt: number
  readonly send: (sent: SentCall) => void
}

/** The entries that were set least lately are forgotten beyond this number: memory is bounded. */
const ENTRIES_MAX = 500
/** The retries that are possible before any call succeeded. */
const RETRIES_MAX = 10

/** Sets an entry as the latest one. Entries in use are kept, and looked at again later. */
export function setBounded<Value>(
  map: Map<string, Value>,
  key: string,
  value: Value,
  isUsed: (value: Value) => boolean = () => false,
): Value {
  map.delete(key)
  map.set(key, value)
  // Two for one, so that a map that had to grow shrinks again.
  for (let i = 0; i < 2 && map.size > ENTRIES_MAX; i++) {
    const [oldest, entry] = map.entries().next().value ?? [key, value]
    map.delete(oldest)
    if (isUsed(entry)) map.set(oldest, entry)
  }
  return value
}

export class CallGroup {
  /** What calls of the group have in common; may contain credentials. */
  readonly id: string
  /** The name of the group in events and errors. */
  key: string
  inFlight = 0
  /** The number of retries that calls of the group may make now. */
  retries = RETRIES_MAX
  readonly queue: Call[] = []
  readonly #deps: GroupDeps
  readonly #paces = new Map<string, Pace>()
  /** The names of the limits that the latest answer of each route listed. */
  readonly #routes = new Map<string, readonly string[]>()
  /** The names of the limits in the latest answer of all; undefined before the first one. */
  #names: readonly string[] | undefined
  /** No call before this instant. */
  #until = 0
  #cancel = () => {}

  constructor(id: string, deps: GroupDeps) {
    this.id = id
    this.key = id
    this.#deps = deps
  }

  /** Resolves when the call may be sent; it is then counted as in flight. */
  turn(route: string, priority: number, signal: Signal): Promise<SentCall> {
    const { queue, key } = this
    const { maxQueue, clock, emit } = this.#deps
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason)
      if (queue.length >= maxQueue) {
        return reject(
          new PacedFetchError('queue_full', `${maxQueue} calls already wait for ${key}.`),
        )
      }
      const leave = () => {
        queue.splice(queue.indexOf(call), 1)
        // The timer may have been for this call alone.
        this.pump()
        reject(signal?.reason)
      }
      const send = (sent: SentCall) => {
        signal?.removeEventListener('abort', leave)
        resolve(sent)
      }
      const call: Call = { route, priority, queuedAt: clock.now(), send }
      signal?.addEventListener('abort', leave, { once: true })
      const place = queue.findIndex((other) => other.priority < priority)
      queue.splice(place < 0 ? queue.length : place, 0, call)
      this.pump()
      if (queue.includes(call)) emit('queued', { key, waiting: queue.length })
    })
  }

  /** Calls wait, or are in flight. */
  get isUsed(): boolean {
    return this.inFlight + this.queue.length > 0
  }

  /** Allows a part of a retry more, for a call that needed none. */
  earnRetry(ratio: number): void {
    this.retries = Math.min(RETRIES_MAX, this.retries + ratio)
  }

  /** Ends a call, with or without an answer. */
  recordEnd(): void {
    // After a call that failed, too, others need not wait for the first answer.
    this.#names ??= []
    this.inFlight--
  }

  /** Takes what an answer says into the paces of its limits. */
  recordAnswer(
    route: string,
    policies: readonly RateLimitPolicy[],
    isRefusal: boolean,
    sent?: SentCall,
    retryAfterMs?: number,
  ): void {
    const paces = this.#paces
    for (const policy of policies) {
      const pace = setBounded(paces, policy.name, paces.get(policy.name) ?? createPace())
      recordAnswer(pace, policy, this.#deps.clock.now(), isRefusal, sent?.get(pace), retryAfterMs)
    }
    if (policies[0]) {
      this.#names = policies.map(({ name }) => name)
      setBounded(this.#routes, route, this.#names)
    }
  }

  /** Sends nothing before an instant: calls with these limits, or all calls if there are none. */
  hold(policies: readonly RateLimitPolicy[], until: number): void {
    if (!policies[0]) this.#until = Math.max(this.#until, until)
    for (const { name } of policies) {
      const pace = this.#paces.get(name)
      if (pace) pace.until = Math.max(pace.until, until)
    }
  }

  /** Sends what is due, and sets a timer for the next. */
  pump(): void {
    const { queue, key } = this
    const { clock, maxInFlight, emit, random } = this.#deps
    const now = clock.now()
    const blocked = new Set<string>()
    let next = Number.POSITIVE_INFINITY
    this.#cancel()
    for (let i = 0; i < queue.length; ) {
      // Before the first answer one call at a time finds out what the limits are.
      if (this.inFlight >= (this.#names ? maxInFlight : 1)) return
      const call = queue[i] as Call
      const due = blocked.has(call.route) ? next : this.dueAt(call.route, now)
      if (due > now) {
        blocked.add(call.route)
        next = Math.min(next, due)
        i++
        continue
      }
      queue.splice(i, 1)
      this.inFlight++
      const paces = this.pacesOf(call.route)
      call.send(new Map(paces.map((pace) => [pace, recordSend(pace, now, random())])))
      // Last, because a listener may make calls, which must find this one counted.
      emit('sent', { key, waitedMs: now - call.queuedAt })
    }
    this.#cancel()
    if (next < Number.POSITIVE_INFINITY) {
      this.#cancel = clock.after(Math.max(1, Math.ceil(next - now)), () => this.pump())
    }
  }

  private pacesOf(route: string): readonly Pace[] {
    const names = this.#routes.get(route) ?? this.#names ?? []
    return names.flatMap((name) => this.#paces.get(name) ?? [])
  }

  private dueAt(route: string, now: number): number {
    return Math.max(this.#until, ...this.pacesOf(route).map((pace) => dueAt(pace, now)))
  }
}

/**
 * Announces refunds and resets of this node to the other nodes, and receives theirs, through the
 * Redis that they share. Otherwise a refusal that another node remembers would outlive them by up
 * to a second.
 *
 * Nothing waits for it. An announcement that cannot be sent (no rights, no connection, too many at
 * once) is dropped, because the other nodes forget refusals within that second anyway.
 */
import type { CounterKey } from '@sluice/core'
import type { Scheduler } from '../../periodic.js'
import { decodeAnnouncement, encodeAnnouncement, KEYS_MAX } from './announcement.js'
import type { RunCommand } from '../connection/run-command.js'
import {
  type RedisDriver,
  type RedisReply,
  RedisReplyError,
  type Subscription,
  type SubscriptionEvents,
} from '../connection/driver.js'
import { codeOf } from '../pipeline/error-actions.js'

/** The most counters that wait to be announced; further ones are dropped. */
const WAITING_MAX = 4096
/** The least time between two messages of a node; counters that are added meanwhile share one. */
const EVERY_MS_MIN = 5
const EVERY_MS_MAX = 250
/** The most writes per second for all nodes together; Redis writes each message to each node. */
const WRITES_PER_SECOND_MAX = 10_000
/** How long a user that may not publish is not retried; rights may change. */
const REFUSED_MS = 30_000
/** How long a start waits for the subscription. */
const SUBSCRIBED_MS_MAX = 250
/** The least time between two reactions to requests for a missing secret. */
const RESTORE_EVERY_MS = 250

export interface AnnouncementsDeps {
  /** The name of a pub/sub channel, not a key. */
  readonly channel: string
  /** The id of this process, 16 hex digits. */
  readonly sender: string
  /** Runs a command on the node at which all nodes subscribe. */
  readonly run: RunCommand
  readonly subscribe: (events: SubscriptionEvents) => ReturnType<RedisDriver['subscribe']>
  readonly nowMs: () => number
  readonly scheduler: Scheduler
  readonly fleetSize: () => number
  /** Another node gave units back to this counter. */
  readonly onReturned: (key: CounterKey) => void
  /** Another node has found that the secret is missing. */
  readonly onRestore: () => void
  readonly onProblem: (text: string) => void
}

export class Announcements {
  readonly #deps: AnnouncementsDeps
  readonly #waiting = new Map<string, CounterKey>()
  #subscription: Subscription | undefined
  #cancel: (() => void) | undefined
  #isPublishing = false
  #publishedMs = -Infinity
  #refusedUntilMs = -Infinity
  #restoredMs = -Infinity
  #isRefusalReported = false
  #isClosed = false

  constructor(deps: AnnouncementsDeps) {
    this.#deps = deps
  }

  /** Resolves when subscribed, refused, or after a short wait. */
  start(): Promise<void> {
    if (this.#isClosed) return Promise.resolve()
    return new Promise((resolve) => {
      this.#deps.scheduler.after(SUBSCRIBED_MS_MAX, resolve)
      this.#subscription ??= this.#deps.subscribe({
        message: (message) => this.receive(message),
        subscribed: resolve,
        refused: (error) => {
          resolve()
          this.reportRefusal(error)
        },
      })
    })
  }

  /** Announces that units were given back to this counter, so that other nodes forget refusals. */
  announce(key: CounterKey): void {
    const isRefused = this.#deps.nowMs() < this.#refusedUntilMs
    if (this.#isClosed || isRefused || this.#waiting.size >= WAITING_MAX) return
    this.#waiting.set(`${key.hi}.${key.lo}`, key)
    this.schedule()
  }

  /**
   * Makes all nodes that hold the secret write it again. Resolves to how many received the request;
   * rejects if that is not known.
   */
  async requestSecret(): Promise<number> {
    const { sender } = this.#deps
    const receivers = await this.publish(encodeAnnouncement({ kind: 'restore', sender }))
    return typeof receivers === 'number' ? receivers : 0
  }

  /** Sends what still waits. Never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancel?.()
    this.#subscription?.close()
    await this.flush()
  }

  private receive(message: Buffer): void {
    const announcement = decodeAnnouncement(message)
    if (announcement === undefined || announcement.sender === this.#deps.sender) return
    if (announcement.kind === 'returned') {
      for (const key of announcement.keys) this.#deps.onReturned(key)
      return
    }
    const nowMs = this.#deps.nowMs()
    if (nowMs - this.#restoredMs < RESTORE_EVERY_MS) return
    this.#restoredMs = nowMs
    this.#deps.onRestore()
  }

  private schedule(): void {
    if (this.#cancel !== undefined || this.#isPublishing) return
    const inMs = Math.max(0, this.#publishedMs + this.everyMs() - this.#deps.nowMs())
    this.#cancel = this.#deps.scheduler.after(inMs, () => {
      this.#cancel = undefined
      void this.flush()
    })
  }

  /** The more nodes there are, the more each message costs, and the fewer each node may send. */
  private everyMs(): number {
    const nodes = this.#deps.fleetSize()
    const fairMs = (nodes * nodes * 1000) / WRITES_PER_SECOND_MAX
    return Math.min(EVERY_MS_MAX, Math.max(EVERY_MS_MIN, fairMs))
  }

  private async flush(): Promise<void> {
    const keys = [...this.#waiting.values()].slice(0, KEYS_MAX)
    if (keys.length === 0 || this.#isPublishing) return
    for (const { hi, lo } of keys) this.#waiting.delete(`${hi}.${lo}`)
    const { sender, nowMs } = this.#deps
    this.#isPublishing = true
    this.#publishedMs = nowMs()
    try {
      await this.publish(encodeAnnouncement({ kind: 'returned', sender, keys }))
    } catch {
      // Other nodes notice within a second.
    } finally {
      this.#isPublishing = false
    }
    if (this.#waiting.size > 0 && !this.#isClosed) this.schedule()
  }

  private async publish(message: Buffer): Promise<RedisReply> {
    const { run, channel, nowMs } = this.#deps
    try {
      return await run(['PUBLISH', channel, message])
    } catch (error) {
      if (error instanceof RedisReplyError && isRefusal(error)) {
        this.#refusedUntilMs = nowMs() + REFUSED_MS
        this.#waiting.clear()
        this.reportRefusal(error)
      }
      throw error
    }
  }

  /** Reported once, because a user that may not publish most likely may not subscribe either. */
  private reportRefusal(error: Error): void {
    if (this.#isRefusalReported) return
    this.#isRefusalReported = true
    this.#deps.onProblem(
      `Redis does not let nodes announce refunds and resets to each other (${error.message}): other ` +
        'nodes may still refuse for up to 1 s after that; accepted: a user with the rights in STORE_ACL',
    )
  }
}

/** A missing right, or a server without the command; not a transient error. */
function isRefusal({ message }: RedisReplyError): boolean {
  const code = codeOf(message)
  return code === 'NOPERM' || code === 'ERR'
}

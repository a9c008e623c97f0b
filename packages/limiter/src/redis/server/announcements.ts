/**
 * Announces refunds and resets of this node to the others, and hears theirs, over the Redis that
 * they share: a refusal that another node remembers would otherwise outlive them by up to a second.
 *
 * Nothing waits for it. What cannot be announced (no rights, no connection, too much at once) is
 * dropped, because what others remember dies by itself within that second.
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

/** Counters that wait to be announced; further ones are dropped. */
const WAITING_MAX = 4096
/** The least time between two messages of a node; what comes meanwhile leaves together. */
const EVERY_MS_MIN = 5
const EVERY_MS_MAX = 250
/** Redis writes each message to each node: all nodes together ask for so many writes a second. */
const WRITES_PER_SECOND_MAX = 10_000
/** A user that may not publish is not tried again for so long: rights change too. */
const REFUSED_MS = 30_000
/** A start does not wait longer than this until it hears the others. */
const SUBSCRIBED_MS_MAX = 250
/** Requests for a missing secret are heeded no more often than this. */
const RESTORE_EVERY_MS = 250

export interface AnnouncementsDeps {
  /** No key, but what Redis calls a channel. */
  readonly channel: string
  /** Of this process, 16 hex digits. */
  readonly sender: string
  /** Asks the node at which all subscribe. */
  readonly run: RunCommand
  readonly subscribe: (events: SubscriptionEvents) => ReturnType<RedisDriver['subscribe']>
  readonly nowMs: () => number
  readonly scheduler: Scheduler
  readonly fleetSize: () => number
  /** Something was given back to this counter by another node. */
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

  /** Resolves when the others are heard, or when it is clear that this takes longer. */
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

  /** Something was given back to this counter here: other nodes are to forget what they know. */
  announce(key: CounterKey): void {
    const isRefused = this.#deps.nowMs() < this.#refusedUntilMs
    if (this.#isClosed || isRefused || this.#waiting.size >= WAITING_MAX) return
    this.#waiting.set(`${key.hi}.${key.lo}`, key)
    this.schedule()
  }

  /**
   * Asks all nodes that hold the secret to write it again. Resolves to how many heard it; rejects
   * where that cannot be known.
   */
  async requestSecret(): Promise<number> {
    const { sender } = this.#deps
    const receivers = await this.publish(encodeAnnouncement({ kind: 'restore', sender }))
    return typeof receivers === 'number' ? receivers : 0
  }

  /** What still waits leaves. Never rejects. */
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

  /** The more nodes there are, the more each message costs, and the fewer each may send. */
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
      // The others see it within a second.
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

  /** Once: a user that may not publish may not subscribe either, most likely. */
  private reportRefusal(error: Error): void {
    if (this.#isRefusalReported) return
    this.#isRefusalReported = true
    this.#deps.onProblem(
      `Redis does not let nodes announce refunds and resets to each other (${error.message}): other ` +
        'nodes may refuse for up to 1 s after one; accepted: a user with the rights in STORE_ACL',
    )
  }
}

/** A right that is missing, or a server without the command; not what may pass. */
function isRefusal({ message }: RedisReplyError): boolean {
  const code = codeOf(message)
  return code === 'NOPERM' || code === 'ERR'
}

/**
 * Brings counters home: those that this process holds of partitions which another member owns. That
 * is so after a member has joined, while this one leaves, and after it stood in for an owner that
 * was silent. The owner adds them to what it has. None is sent twice: what may have arrived is
 * forgotten, and what certainly has not, or was refused, is kept and tried again.
 */
import { algorithmOf } from '@sluice/core'
import type { Scheduler } from '../periodic.js'
import { type RedisChannel, RedisReplyError } from '../redis/connection/driver.js'
import { wordsCommand } from '../redis/connection/run-command.js'
import { actionOf, codeOf } from '../redis/pipeline/error-actions.js'
import type { StoredState } from '../memory/counters.js'
import { writeSnapshot } from '../memory/memory-snapshot.js'
import type { MemoryCounterStore } from '../memory/memory-store.js'
import { HOME_COMMAND } from './peer-commands.js'

/** What became of counters that were to go home. */
export type HomingFate = 'sent' | 'unknown'

export interface HomingDeps {
  readonly counters: MemoryCounterStore
  readonly clock: { now(): number }
  readonly scheduler: Scheduler
  readonly isOwn: (partition: number) => boolean
  /** Undefined while the owner is silent. */
  readonly ownerChannel: (partition: number) => RedisChannel | undefined
  readonly onHandedOver: (fate: HomingFate, counters: number) => void
  /** A member that answers takes no counters. */
  readonly onProblem: (message: string) => void
}

/** Counters of one message: about 40 KB, where few of them have limits of their own. */
const COUNTERS_MAX = 1000
/** The numbers of the states of one message: a log alone may have 40,000. */
const NUMBERS_MAX = 20_000
/** A longer message is sent in halves; only a log alone may be longer, see `peer-server.ts`. */
const BYTES_MAX = 256 * 1024
/** The pause before counters are looked for after something has changed. */
const SOON_MS = 20
/** The pause before the next attempt while an owner is silent. */
const AGAIN_MS = 500

interface Parcel {
  readonly channel: RedisChannel
  readonly counters: StoredState[]
  numbers: number
}

export class Homing {
  readonly #deps: HomingDeps
  #cancel: (() => void) | undefined
  /** How long the next look was put off. */
  #waitMs = 0
  #sweeping: Promise<void> | undefined
  #isClosed = false
  /** How many counters were left at the end of the last sweep, because their owner was silent. */
  #left = 0

  constructor(deps: HomingDeps) {
    this.#deps = deps
  }

  /** Counters of this process that belong to others, at the last look. */
  get misplaced(): number {
    return this.#left
  }

  /** A counter that another member owns was used in this process. */
  onMisplaced(partition: number): void {
    // While its owner is silent, a look would find all counters where they are.
    this.wake(this.#deps.ownerChannel(partition) === undefined ? AGAIN_MS : SOON_MS)
  }

  /** Something has changed: counters may be in the wrong place. */
  wake(afterMs = SOON_MS): void {
    if (this.#isClosed || (this.#cancel !== undefined && this.#waitMs <= afterMs)) return
    this.#cancel?.()
    this.#waitMs = afterMs
    this.#cancel = this.#deps.scheduler.after(afterMs, () => {
      this.#cancel = undefined
      void this.sweep().then(() => {
        if (this.#left > 0) this.wake(AGAIN_MS)
      })
    })
  }

  close(): void {
    this.#isClosed = true
    this.#cancel?.()
    this.#cancel = undefined
  }

  /** Sends home what can be sent. Returns whether nothing is left. */
  async sweep(): Promise<boolean> {
    // One at a time; what changed meanwhile is found by the next.
    while (this.#sweeping !== undefined) await this.#sweeping
    this.#sweeping = this.sendHome()
    try {
      await this.#sweeping
    } finally {
      this.#sweeping = undefined
    }
    return this.#left === 0
  }

  /** Callers at their limit first: they would use a fresh counter at once. */
  private async sendHome(): Promise<void> {
    await this.sendMatching((stored) => this.isBlocked(stored))
    this.#left = await this.sendMatching(() => true)
  }

  /** Returns how many counters stayed because their owner is silent. */
  private async sendMatching(isIncluded: (stored: StoredState) => boolean): Promise<number> {
    const { counters, isOwn, ownerChannel } = this.#deps
    const parcels = new Map<RedisChannel, Parcel>()
    const refusing = new Set<RedisChannel>()
    let left = 0
    for (const stored of counters.inPartitions((partition) => !isOwn(partition))) {
      if (stored === undefined) {
        left += await this.sendAll(parcels, refusing)
        // Calls are decided before the next records are looked at.
        await new Promise((resolve) => {
          setImmediate(resolve)
        })
        continue
      }
      if (!isIncluded(stored)) continue
      const channel = ownerChannel(stored.key.partition)
      if (channel === undefined || refusing.has(channel)) {
        left += 1
        continue
      }
      const parcel = parcels.get(channel) ?? { channel, counters: [], numbers: 0 }
      parcels.set(channel, parcel)
      parcel.counters.push(stored)
      parcel.numbers += Array.isArray(stored.state) ? stored.state.length : 3
      counters.reset(stored.key)
      if (parcel.counters.length < COUNTERS_MAX && parcel.numbers < NUMBERS_MAX) continue
      parcels.delete(channel)
      left += await this.send(parcel, refusing)
    }
    return left + (await this.sendAll(parcels, refusing))
  }

  private async sendAll(
    parcels: Map<RedisChannel, Parcel>,
    refusing: Set<RedisChannel>,
  ): Promise<number> {
    const sending = [...parcels.values()].map((parcel) => this.send(parcel, refusing))
    parcels.clear()
    const left = await Promise.all(sending)
    return left.reduce((sum, each) => sum + each, 0)
  }

  /**
   * Returns how many counters came back, because they were certainly not sent, or because the owner
   * takes none; that one is added to `refusing`.
   */
  private async send(
    { channel, counters }: Pick<Parcel, 'channel' | 'counters'>,
    refusing: Set<RedisChannel>,
  ): Promise<number> {
    const bytes = writeSnapshot(counters)
    if (bytes.length > BYTES_MAX && counters.length > 1) {
      const middle = counters.length >>> 1
      const first = { channel, counters: counters.slice(0, middle) }
      const second = { channel, counters: counters.slice(middle) }
      return (await this.send(first, refusing)) + (await this.send(second, refusing))
    }
    const command = wordsCommand([HOME_COMMAND, Buffer.from(bytes)])
    const reply = await new Promise<unknown>((resolve) => {
      const isSent = channel.send([command], (_, answer) => resolve(answer))
      if (!isSent) resolve(NOT_SENT)
    })
    // Every known code says that nothing was taken.
    const code = reply instanceof RedisReplyError ? codeOf(reply.message) : 'ERR'
    if (reply === NOT_SENT || code !== 'ERR') {
      this.#deps.counters.merge(counters)
      refusing.add(channel)
      if (reply instanceof RedisReplyError && actionOf(code) === 'loud') {
        this.#deps.onProblem(`${channel.address} takes no counters: ${reply.message}`)
      }
      return counters.length
    }
    this.#deps.onHandedOver(reply instanceof Error ? 'unknown' : 'sent', counters.length)
    return 0
  }

  private isBlocked({ limit, state }: StoredState): boolean {
    const now = this.#deps.clock.now()
    return algorithmOf(limit).peek(state, limit, 1, now).retryAfterMs !== 0
  }
}

const NOT_SENT = Symbol('not sent')

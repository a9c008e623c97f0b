/**
 * Brings counters home: those that this process holds of partitions which another member owns. That
 * is so after a member has joined, while this one leaves, and after it stood in for an owner that
 * was silent. The owner adds them to what it has. None is sent twice: what may have arrived is
 * forgotten, and what certainly has not is kept and tried again.
 */
import { algorithmOf } from '@sluice/core'
import type { Scheduler } from '../periodic.js'
import { type RedisChannel, RedisConnectionError } from '../redis/connection/driver.js'
import { wordsCommand } from '../redis/connection/run-command.js'
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
}

/** Counters of one message; with their states about 100 KB, well below what a peer accepts. */
const COUNTERS_MAX = 1000
/** The numbers of the states of one message: a log alone may have 40,000. */
const NUMBERS_MAX = 20_000
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

  /** Something has changed: counters may be in the wrong place. */
  wake(afterMs = SOON_MS): void {
    if (this.#isClosed || this.#cancel !== undefined) return
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
    let left = 0
    for (const stored of counters.inPartitions((partition) => !isOwn(partition))) {
      if (stored === undefined) {
        await this.sendAll(parcels)
        continue
      }
      if (!isIncluded(stored)) continue
      const channel = ownerChannel(stored.key.partition)
      if (channel === undefined) {
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
      left += await this.send(parcel)
    }
    return left + (await this.sendAll(parcels))
  }

  private async sendAll(parcels: Map<RedisChannel, Parcel>): Promise<number> {
    const sending = [...parcels.values()].map((parcel) => this.send(parcel))
    parcels.clear()
    const left = await Promise.all(sending)
    return left.reduce((sum, each) => sum + each, 0)
  }

  /** Returns how many counters came back because they were certainly not sent. */
  private async send({ channel, counters }: Parcel): Promise<number> {
    const { onHandedOver } = this.#deps
    const command = wordsCommand([HOME_COMMAND, Buffer.from(writeSnapshot(counters))])
    const reply = await new Promise<unknown>((resolve) => {
      const isSent = channel.send([command], (_, answer) => resolve(answer))
      if (!isSent) resolve(NOT_SENT)
    })
    if (reply === NOT_SENT) {
      this.#deps.counters.merge(counters)
      return counters.length
    }
    const isLost = reply instanceof RedisConnectionError || reply instanceof Error
    onHandedOver(isLost ? 'unknown' : 'sent', counters.length)
    return 0
  }

  private isBlocked({ limit, state }: StoredState): boolean {
    const now = this.#deps.clock.now()
    return algorithmOf(limit).peek(state, limit, 1, now).retryAfterMs !== 0
  }
}

const NOT_SENT = Symbol('not sent')

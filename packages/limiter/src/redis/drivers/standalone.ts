import type { RedisChannel, RedisDriver, Subscription, SubscriptionEvents } from '../driver.js'
import { type RedisAddress } from '../url.js'
import { Connection, type ConnectionParts } from './connection.js'
import type { Greeting } from './greeting.js'
import { Listeners } from './listeners.js'
import { FollowingSubscription, type SubscriptionDeps } from './subscription.js'

/** One node, which serves every slot. */
export class StandaloneDriver implements RedisDriver {
  readonly topology = 'standalone'
  readonly #listeners = new Listeners()
  readonly #connection: Connection
  readonly #subscribing: SubscriptionDeps

  constructor(where: RedisAddress, greeting: Greeting, parts: ConnectionParts) {
    this.#subscribing = { where: () => where, greeting, parts }
    this.#connection = new Connection(where, greeting, parts, {
      ready: (connection) => this.#listeners.ready(connection),
      lost: () => {},
      problem: (problem) => this.#listeners.problem(problem),
    })
  }

  channelOf(): RedisChannel {
    return this.#connection
  }

  channelAt(address: string): RedisChannel | undefined {
    return address === this.#connection.address ? this.#connection : undefined
  }

  channels(): readonly RedisChannel[] {
    return [this.#connection]
  }

  refresh(): void {
    // There is nothing to learn.
  }

  subscribe(_slot: number, channel: string, events: SubscriptionEvents): Subscription {
    return new FollowingSubscription(channel, events, this.#subscribing)
  }

  onReady(listener: (channel: RedisChannel) => void): void {
    this.#listeners.onReady(listener)
  }

  onProblem(listener: (problem: Error) => void): void {
    this.#listeners.onProblem(listener)
  }

  async close(): Promise<void> {
    this.#connection.close()
    await socketsGone()
  }
}

/** A socket that is destroyed is gone one turn of the event loop later. */
export function socketsGone(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

import type { RedisChannel, RedisDriver, Subscription, SubscriptionEvents } from './driver.js'
import { type RedisAddress } from './redis-target.js'
import { NodeConnection, type ConnectionDeps } from './node-connection.js'
import type { HandshakeOptions } from './handshake.js'
import { DriverListeners } from './driver-listeners.js'
import { FollowingSubscription, type SubscriptionDeps } from './subscription.js'

/** One node, which serves every slot. */
export class StandaloneDriver implements RedisDriver {
  readonly topology = 'standalone'
  readonly #listeners = new DriverListeners()
  readonly #connection: NodeConnection
  readonly #subscriptionDeps: SubscriptionDeps

  constructor(endpoint: RedisAddress, handshake: HandshakeOptions, deps: ConnectionDeps) {
    this.#subscriptionDeps = { endpoint: () => endpoint, handshake, connectionDeps: deps }
    this.#connection = new NodeConnection(endpoint, handshake, deps, {
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
    // One node has no topology.
  }

  subscribe(_slot: number, channel: string, events: SubscriptionEvents): Subscription {
    return new FollowingSubscription(channel, events, this.#subscriptionDeps)
  }

  onReady(listener: (channel: RedisChannel) => void): void {
    this.#listeners.onReady(listener)
  }

  onProblem(listener: (problem: Error) => void): void {
    this.#listeners.onProblem(listener)
  }

  async close(): Promise<void> {
    this.#connection.close()
    await waitForSockets()
  }
}

/** A destroyed socket is gone one turn of the event loop later. */
export function waitForSockets(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

/**
 * Subscribes to one channel on a connection of its own, because a subscribed connection can do
 * nothing else. It follows its node through failovers. Messages published while it is not connected
 * are lost.
 */
import { RedisReplyError, type Subscription, type SubscriptionEvents } from './driver.js'
import { PeriodicTask, systemScheduler } from '../../periodic.js'
import { formatAddress, type RedisAddress } from './redis-target.js'
import { NodeConnection, type ConnectionDeps } from './node-connection.js'
import type { HandshakeOptions } from './handshake.js'

/** How often to check whether another node serves the slot. */
const FOLLOW_EVERY_MS = 1000
/** A user that may not subscribe is retried after this many checks, because rights may change. */
const REFUSED_ROUNDS = 30

export interface SubscriptionDeps {
  /** The node to subscribe at; undefined while none is known. */
  readonly endpoint: () => RedisAddress | undefined
  readonly handshake: HandshakeOptions
  readonly connectionDeps: ConnectionDeps
}

export class FollowingSubscription implements Subscription {
  readonly #channel: string
  readonly #events: SubscriptionEvents
  readonly #deps: SubscriptionDeps
  readonly #task: PeriodicTask
  #connection: NodeConnection | undefined
  #refusedRounds = 0
  #isClosed = false

  constructor(channel: string, events: SubscriptionEvents, deps: SubscriptionDeps) {
    this.#channel = channel
    this.#events = events
    this.#deps = deps
    this.#task = new PeriodicTask(FOLLOW_EVERY_MS, () => this.follow(), systemScheduler)
    this.#task.start()
  }

  close(): void {
    this.#isClosed = true
    this.#task.stop()
    this.drop()
  }

  private async follow(): Promise<void> {
    this.#refusedRounds -= 1
    const endpoint = this.#deps.endpoint()
    if (this.#isClosed || this.#refusedRounds > 0 || endpoint === undefined) return
    if (this.#connection?.address === formatAddress(endpoint)) return
    this.drop()
    const { handshake, connectionDeps: deps } = this.#deps
    this.#connection = new NodeConnection(endpoint, handshake, deps, {
      ready: (connection) => this.subscribe(connection),
      lost: () => {},
      // The connections for decisions have the same problems and report them.
      problem: () => {},
    })
  }

  private subscribe(connection: NodeConnection): void {
    const isCurrent = () => connection === this.#connection
    const onMessage = (message: Buffer) => {
      if (isCurrent()) this.#events.message(message)
    }
    connection.subscribe(this.#channel, onMessage).then(
      () => {
        if (isCurrent()) this.#events.subscribed()
      },
      (error: unknown) => {
        if (!isCurrent()) return
        this.drop()
        if (!(error instanceof RedisReplyError)) return
        this.#refusedRounds = REFUSED_ROUNDS
        this.#events.refused(error)
      },
    )
  }

  private drop(): void {
    this.#connection?.close()
    this.#connection = undefined
  }
}

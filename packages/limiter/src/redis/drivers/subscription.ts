/**
 * Hears what is published on one channel, on a connection of its own, because one that subscribes
 * can do nothing else. It follows its node through failovers; what is published while it is not
 * connected is lost.
 */
import { RedisReplyError, type Subscription, type SubscriptionEvents } from '../driver.js'
import { Rounds, timers } from '../../rounds.js'
import { formatAddress, type RedisAddress } from '../url.js'
import { Connection, type ConnectionParts } from './connection.js'
import type { Greeting } from './greeting.js'

/** How often it is looked whether the node is another one now. */
const FOLLOW_EVERY_MS = 1000
/** A user that may not subscribe is tried again after so many of these: rights change too. */
const REFUSED_ROUNDS = 30

export interface SubscriptionDeps {
  /** The node to subscribe at; undefined while none is known. */
  readonly where: () => RedisAddress | undefined
  readonly greeting: Greeting
  readonly parts: ConnectionParts
}

export class FollowingSubscription implements Subscription {
  readonly #channel: string
  readonly #events: SubscriptionEvents
  readonly #deps: SubscriptionDeps
  readonly #rounds: Rounds
  #connection: Connection | undefined
  #refusedRounds = 0
  #isClosed = false

  constructor(channel: string, events: SubscriptionEvents, deps: SubscriptionDeps) {
    this.#channel = channel
    this.#events = events
    this.#deps = deps
    this.#rounds = new Rounds(FOLLOW_EVERY_MS, () => this.follow(), timers)
    this.#rounds.start()
  }

  close(): void {
    this.#isClosed = true
    this.#rounds.stop()
    this.drop()
  }

  private async follow(): Promise<void> {
    this.#refusedRounds -= 1
    const where = this.#deps.where()
    if (this.#isClosed || this.#refusedRounds > 0 || where === undefined) return
    if (this.#connection?.address === formatAddress(where)) return
    this.drop()
    const { greeting, parts } = this.#deps
    this.#connection = new Connection(where, greeting, parts, {
      ready: (connection) => this.subscribe(connection),
      lost: () => {},
      // The connections of decisions meet the same problems, and report them.
      problem: () => {},
    })
  }

  private subscribe(connection: Connection): void {
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

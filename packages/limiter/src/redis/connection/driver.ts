/**
 * Everything that the store needs from a Redis client. The client does bytes, TLS and the protocol;
 * reconnecting, topology, deadlines, batches, retries and the choice of a node are done here.
 */

/** One command. A driver uses whichever form its client can send. */
export interface RedisCommand {
  /** The encoded command. */
  bytes(): Uint8Array
  /** Its arguments, the command's name first. */
  words(): readonly (string | Buffer)[]
}

/** Strings arrive as bytes, numbers as numbers, in RESP2 shapes. */
export type RedisReply = Buffer | number | null | readonly RedisReply[]

/** An error that Redis itself replied: the command was read and answered. */
export class RedisReplyError extends Error {
  override readonly name = 'RedisReplyError'
}

/** The connection ended before the reply, so it is unknown whether the command ran. */
export class RedisConnectionError extends Error {
  override readonly name = 'RedisConnectionError'
}

/** A problem with the connection to one node; `cause` is the error that was replied or thrown. */
export class RedisNodeProblem extends Error {
  override readonly name = 'RedisNodeProblem'
  /** `host:port`. */
  readonly address: string

  constructor(address: string, cause: Error) {
    super(`Redis ${address}: ${cause.message}`, { cause })
    this.address = address
  }
}

export interface SubscriptionEvents {
  message(message: Buffer): void
  /** Messages arrive from now on. */
  subscribed(): void
  /** Redis does not allow this user to subscribe. The subscription is retried from time to time. */
  refused(error: Error): void
}

export interface Subscription {
  close(): void
}

/** One connection to one Redis node. */
export interface RedisChannel {
  /** `host:port` of the node, for messages and metrics. */
  readonly address: string
  /** Whether a command would be sent at once; nothing is queued while it is false. */
  readonly isReady: boolean
  /**
   * Writes all commands at once, in order. `settle` is called exactly once for each, with its reply
   * or its error. If the connection is not ready, `send` returns false and does nothing.
   */
  send(
    commands: readonly RedisCommand[],
    settle: (index: number, reply: RedisReply | Error) => void,
  ): boolean
  /** Drops the connection, which may be dead without notice, and opens a new one. */
  reconnect(): void
}

export interface RedisDriver {
  readonly topology: 'standalone' | 'sentinel' | 'cluster' | 'ring'
  /**
   * The channel of the primary that serves a slot now; undefined while none is known. Without a
   * Cluster it is the same for every slot.
   */
  channelOf(slot: number): RedisChannel | undefined
  /** The number of the server that holds a partition, where one script may use all it holds. */
  shardOf?(partition: number): number
  /** The channel of the node `host:port` that a redirection named; undefined if it is not known. */
  channelAt(address: string): RedisChannel | undefined
  /** Every known primary. */
  channels(): readonly RedisChannel[]
  /** Requests a new topology, because a redirection showed that it changed. */
  refresh(): void
  /** Called whenever a connection becomes ready, also again after it was lost. */
  onReady(listener: (channel: RedisChannel) => void): void
  /**
   * Subscribes to a channel at the node that serves a slot, on a connection of its own. On a
   * Cluster, messages that are published at any node reach every node.
   */
  subscribe(slot: number, channel: string, events: SubscriptionEvents): Subscription
  /** Reports connection problems that belong to no command, for the log. */
  onProblem(listener: (problem: Error) => void): void
  close(): Promise<void>
}

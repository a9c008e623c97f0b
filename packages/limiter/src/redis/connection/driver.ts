/**
 * What the store needs of a Redis client, and all it needs: bytes, TLS and the protocol are the
 * client's; reconnecting, topology, deadlines, batches, retries and the choice of a node are ours.
 */

/** One command. A driver uses whichever form its client can send. */
export interface RedisCommand {
  /** As it goes over the wire. */
  bytes(): Uint8Array
  /** Its words, the command's name first. */
  words(): readonly (string | Buffer)[]
}

/** Texts and bulk strings arrive as bytes, numbers as numbers, in RESP2 shapes. */
export type RedisReply = Buffer | number | null | readonly RedisReply[]

/** An error that Redis itself replied: the command was read and answered. */
export class RedisReplyError extends Error {
  override readonly name = 'RedisReplyError'
}

/** The connection ended before the reply: whether the command ran is not known. */
export class RedisConnectionError extends Error {
  override readonly name = 'RedisConnectionError'
}

/** What is wrong with the connection to one node; `cause` is what was answered or failed. */
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
  /** From now on messages arrive. */
  subscribed(): void
  /** Redis answered, and does not let this user subscribe; it is tried again now and then. */
  refused(error: Error): void
}

export interface Subscription {
  close(): void
}

/** One connection to one Redis node. */
export interface RedisChannel {
  /** `host:port` of the node, for messages and metrics. */
  readonly address: string
  /** Whether a command would leave at once; nothing is ever queued while it is not. */
  readonly isReady: boolean
  /**
   * Writes all commands at once, in order. `settle` is called exactly once for each, with its reply
   * or its error. If the connection is not ready, `send` returns false and does nothing.
   */
  send(
    commands: readonly RedisCommand[],
    settle: (index: number, reply: RedisReply | Error) => void,
  ): boolean
  /** Drops the connection, which may be dead without knowing, and connects anew. */
  reconnect(): void
}

export interface RedisDriver {
  readonly topology: 'standalone' | 'sentinel' | 'cluster'
  /**
   * The channel of the primary that serves a slot now; undefined while nobody is known to. Without
   * a Cluster it is the same for every slot.
   */
  channelOf(slot: number): RedisChannel | undefined
  /** The channel of a node that a redirection named, `host:port`; undefined if it is not known. */
  channelAt(address: string): RedisChannel | undefined
  /** Every primary that is known now. */
  channels(): readonly RedisChannel[]
  /** Asks the client to learn the topology anew; a redirection said that it changed. */
  refresh(): void
  /** Called whenever a connection becomes ready, also again after it was lost. */
  onReady(listener: (channel: RedisChannel) => void): void
  /**
   * Hears what is published on a channel, at the node that serves a slot, on a connection of its
   * own. On a Cluster every node hears what any node is told to publish.
   */
  subscribe(slot: number, channel: string, events: SubscriptionEvents): Subscription
  /** What the client complains of between commands; for the log. */
  onProblem(listener: (problem: Error) => void): void
  close(): Promise<void>
}

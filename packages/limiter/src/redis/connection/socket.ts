/**
 * What a client library is used for: one connection to one node, from its first byte to its last.
 * When it ends it ends for good. Reconnecting, handshakes, Cluster and Sentinel are above it, so
 * they are the same for every library, and nothing of an old connection reaches a new one.
 */
import type { RedisCommand, RedisReply } from './driver.js'
import type { RedisTls } from '../redis-options.js'
import type { RedisAddress } from './redis-target.js'

export type Settle = (index: number, reply: RedisReply | Error) => void

export interface RedisSocket {
  /** Whether what is sent now is written. */
  readonly isWritable: boolean
  /** Writes all commands together. An error that is no RedisReplyError: the reply will not come. */
  send(commands: readonly RedisCommand[], settle: Settle): void
  /**
   * Hears what is published on a channel; nothing else can be sent from then on. Rejects with a
   * RedisReplyError where Redis refuses it.
   */
  subscribe(channel: string, onMessage: (message: Buffer) => void): Promise<void>
  /** Ends it at once, in whatever state it is. */
  destroy(): void
}

export interface RedisSocketEvents {
  /** The node can be written to; nothing has been asked yet. */
  opened(): void
  /** It has ended, or must not be used any more: what it says next may belong to anything. */
  ended(reason: Error): void
}

export interface RedisSocketOptions {
  readonly connectTimeoutMs: number
  /** How TLS is done; undefined: not at all. */
  readonly tls: RedisTls | undefined
}

/** Never throws, and calls no event before it has returned. */
export type OpenSocket = (address: RedisAddress, events: RedisSocketEvents) => RedisSocket

/** The libraries' own timeouts come later than ours, and end what ours cannot reach. */
export const CLIENT_TIMEOUT_FACTOR = 2

/** So long a connection is silent before the kernel asks whether the other side is still there. */
export const KEEP_ALIVE_MS = 10_000

/** With the name of the host, which servers that share an address choose their certificate by. */
export function tlsOf(tls: RedisTls, { host }: RedisAddress): RedisTls {
  const isIp = host.includes(':') || /^[\d.]+$/.test(host)
  return isIp || tls.servername !== undefined ? tls : { ...tls, servername: host }
}

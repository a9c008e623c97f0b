/**
 * What a client library is used for: one connection to one node. It is never reopened.
 * Reconnecting, handshakes, Cluster and Sentinel are built on top, so they are the same for every
 * library, and no data of an old connection reaches a new one.
 */
import type { RedisCommand, RedisReply } from './driver.js'
import type { RedisTls } from '../redis-options.js'
import type { RedisAddress } from './redis-target.js'

export type Settle = (index: number, reply: RedisReply | Error) => void

export interface RedisSocket {
  /** Whether a command that is sent now is written. */
  readonly isWritable: boolean
  /**
   * Writes all commands together. Any error other than RedisReplyError means that no reply will
   * come.
   */
  send(commands: readonly RedisCommand[], settle: Settle): void
  /**
   * Subscribes to a channel; nothing else can be sent from then on. Rejects with a RedisReplyError
   * if Redis refuses it.
   */
  subscribe(channel: string, onMessage: (message: Buffer) => void): Promise<void>
  /** Ends the connection at once, in any state. */
  destroy(): void
}

export interface RedisSocketEvents {
  /** The node can be written to; nothing has been sent yet. */
  opened(): void
  /** It has ended, or must not be used any more because replies may be out of step. */
  ended(reason: Error): void
}

export interface RedisSocketOptions {
  readonly connectTimeoutMs: number
  /** The TLS options; undefined for a connection without TLS. */
  readonly tls: RedisTls | undefined
}

/** Never throws, and calls no event before it has returned. */
export type OpenSocket = (address: RedisAddress, events: RedisSocketEvents) => RedisSocket

/** The libraries' own timeouts are longer than ours and only end what ours cannot reach. */
export const CLIENT_TIMEOUT_FACTOR = 2

/** How long a connection is idle before the kernel sends keep-alive probes. */
export const KEEP_ALIVE_MS = 10_000

/** Adds the host name, by which servers that share an address choose their certificate. */
export function tlsOf(tls: RedisTls, { host }: RedisAddress): RedisTls {
  const isIp = host.includes(':') || /^[\d.]+$/.test(host)
  return isIp || tls.servername !== undefined ? tls : { ...tls, servername: host }
}

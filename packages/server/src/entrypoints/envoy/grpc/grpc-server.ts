/** What a server of the gRPC methods is, whatever reads HTTP/2, and the bounds that all share. */
import type { ListenAddress, ServerTlsFiles } from '../../../config/config.js'
import type { Log } from '../../../observability/log/logger.js'
import type { Drainable } from '../../../shutdown.js'
import type { ListenerCounts, PerAddressOptions } from '../../http/http-listener.js'

export interface GrpcServer extends Drainable {
  /** Settles when the server is closed and the last connection has ended. */
  readonly closed: Promise<void>
  /** Resolves to the address as clients name it: host and port. */
  start(): Promise<{ readonly port: number; readonly target: string }>
  /** The open connections. */
  connections(): number
  counts(): ListenerCounts
}

export interface GrpcServerOptions {
  readonly listen: ListenAddress
  /** Undefined: HTTP/2 in clear text, with prior knowledge. */
  readonly tls: ServerTlsFiles | undefined
  readonly maxConnections: number
  readonly perAddress: Omit<PerAddressOptions, 'maxCalls'>
  readonly log: Log
  /** Whether the port is not shared with other workers. @default false */
  readonly exclusive?: boolean | undefined
  /** From 0 to 1, for the age of a connection. @default Math.random */
  readonly random?: (() => number) | undefined
  readonly times?: Partial<GrpcTimes> | undefined
}

export interface ConnectionTimes {
  /** The time within which a client has to begin HTTP/2. */
  readonly handshakeMs: number
  /** The time for a unary call, from its headers until its response is sent. */
  readonly callMs: number
  /** A connection without a stream for this time is closed. */
  readonly idleMs: number
  /** A connection is closed after this time, so that clients spread over new processes. */
  readonly ageMs: number
  /** How often a client is asked whether it is still there. */
  readonly pingMs: number
  /** The time for the answer to a ping. */
  readonly pingTimeoutMs: number
  /**
   * The time between the announcement that a connection ends and the refusal of new streams, unless
   * the client confirms it earlier.
   */
  readonly noticeMs: number
  /** The time that streams may take to end on a connection that is closing. */
  readonly closeMs: number
}

interface GrpcTimes extends ConnectionTimes {
  /** How often the other times are checked. */
  readonly sweepMs: number
}

const SECOND_MS = 1000
const MINUTE_MS = 60 * SECOND_MS

export const TIMES: GrpcTimes = {
  handshakeMs: 10 * SECOND_MS,
  // Far more than any client waits; it ends calls whose message never arrives.
  callMs: 30 * SECOND_MS,
  // Long enough for quiet routes; a client that returns opens a new connection.
  idleMs: 30 * MINUTE_MS,
  ageMs: 24 * 60 * MINUTE_MS,
  pingMs: MINUTE_MS,
  pingTimeoutMs: 20 * SECOND_MS,
  // Longer than what is on its way from a client, and than a pause of its process.
  noticeMs: 5 * SECOND_MS,
  closeMs: MINUTE_MS,
  sweepMs: SECOND_MS,
}

/**
 * The streams of one connection at a time. Envoy sends all calls of a worker thread over one
 * connection, so fewer would make them wait; with small messages each takes a few kilobytes.
 */
export const STREAMS_MAX = 1000
/** The header list that is announced to clients, larger than any that a gRPC client sends. */
export const HEADER_LIST_BYTES_MAX = 16 * 1024
export const TLS_MIN = 'TLSv1.2'

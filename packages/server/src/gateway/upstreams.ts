/** Where calls go: pools of connections, chosen by the canonical path, only from the settings. */
import { lookup as dnsLookup } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { Pool } from 'undici'
import type { GatewayConfig, Upstream } from '../config/config.js'
import { isForbidden } from '../config/urls.js'

/** Calls that may wait for a free connection, for each connection there is. */
const QUEUED_PER_CONNECTION = 4

export interface Target {
  readonly upstream: Upstream
  readonly pool: Pool
  /** `host:port` of the upstream. */
  readonly authority: string
  /** The name its certificate must have; undefined for plain HTTP. */
  readonly servername: string | undefined
  /** Calls sent or waiting. */
  inFlight: number
  readonly maxInFlight: number
}

export interface Upstreams {
  /** The target of the longest prefix; undefined: none. */
  find(path: string): Target | undefined
  close(): Promise<void>
}

type Timeouts = GatewayConfig['timeouts']

export function createUpstreams(upstreams: readonly Upstream[], timeouts: Timeouts): Upstreams {
  const targets = upstreams
    .map((upstream) => createTarget(upstream, timeouts))
    .toSorted((a, b) => b.upstream.prefix.length - a.upstream.prefix.length)
  return {
    find: (path) => targets.find(({ upstream }) => isBelow(path, upstream.prefix)),
    close: async () => {
      await Promise.all(targets.map(({ pool }) => pool.destroy()))
    },
  }
}

function createTarget(upstream: Upstream, timeouts: Timeouts): Target {
  const { host, hostname, protocol } = new URL(upstream.origin)
  const pool = new Pool(upstream.origin, {
    connections: upstream.connections,
    pipelining: 1,
    // Each call has a timer of its own, which also counts the wait for a connection.
    headersTimeout: 0,
    bodyTimeout: timeouts.stallMs,
    connect: { timeout: timeouts.connectMs, lookup: guardedLookup },
  })
  return {
    upstream,
    pool,
    authority: host,
    servername: protocol === 'https:' ? hostname.replace(/^\[|\]$/g, '') : undefined,
    inFlight: 0,
    maxInFlight: upstream.connections * (1 + QUEUED_PER_CONNECTION),
  }
}

function isBelow(path: string, prefix: string): boolean {
  if (prefix === '/' || path === prefix) return true
  return path.startsWith(prefix) && path.charCodeAt(prefix.length) === 47
}

/** Names are checked when they are connected to: what they stand for may have changed since. */
export const guardedLookup: LookupFunction = (hostname, options, callback) => {
  dnsLookup(hostname, options, (error, address, family) => {
    if (error !== null) return callback(error, address, family)
    const found = typeof address === 'string' ? [address] : address.map((entry) => entry.address)
    const forbidden = found.find(isForbidden)
    if (forbidden === undefined) return callback(null, address, family)
    callback(new Error(`${hostname} is ${forbidden}, a link-local address`), '', 0)
  })
}

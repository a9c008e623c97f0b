/** Connection pools of the configured upstreams, chosen by the canonical path of a call. */
import { buildConnector, Pool } from 'undici'
import type { GatewayConfig, Upstream } from '../../config/config.js'
import { guardedLookup } from '../../lib/guarded-lookup.js'
import { BodyMemory } from './body-memory.js'
import { UnsolicitedContinues } from './unsolicited-continue.js'

/** How many calls may wait for a free connection, for each connection. */
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
  /** WebSockets that are open or being opened. */
  websockets: number
  /** Shared by all targets. */
  readonly bodyMemory: BodyMemory
}

export interface Upstreams {
  /** The target of the longest prefix; undefined: none. */
  find(path: string): Target | undefined
  close(): Promise<void>
}

type Timeouts = GatewayConfig['timeouts']

export function createUpstreams(upstreams: readonly Upstream[], timeouts: Timeouts): Upstreams {
  const bodyMemory = new BodyMemory()
  const continues = new UnsolicitedContinues()
  const targets = upstreams
    .map((upstream) => createTarget(upstream, timeouts, { bodyMemory, continues }))
    .toSorted((a, b) => b.upstream.prefix.length - a.upstream.prefix.length)
  return {
    find: (path) => targets.find(({ upstream }) => isBelow(path, upstream.prefix)),
    close: async () => {
      await Promise.all(targets.map(({ pool }) => pool.destroy()))
      continues.close()
    },
  }
}

/** Whether one more call would leave at least half of the connections free. */
export function hasConnectionsToSpare({ inFlight, upstream }: Target): boolean {
  return (inFlight + 1) * 2 <= upstream.connections
}

/** The resources that all upstreams share. */
interface SharedResources {
  readonly bodyMemory: BodyMemory
  readonly continues: UnsolicitedContinues
}

function createTarget(
  upstream: Upstream,
  timeouts: Timeouts,
  { bodyMemory, continues }: SharedResources,
): Target {
  const { host, hostname, protocol } = new URL(upstream.origin)
  const pool = new Pool(upstream.origin, {
    connections: upstream.connections,
    pipelining: 1,
    // Each call has a timer of its own, which starts when its whole body was sent.
    headersTimeout: 0,
    bodyTimeout: timeouts.stallMs,
    connect: continues.wrap(buildConnector({ timeout: timeouts.connectMs, lookup: guardedLookup })),
  })
  return {
    upstream,
    pool,
    authority: host,
    servername: protocol === 'https:' ? hostname.replace(/^\[|\]$/g, '') : undefined,
    inFlight: 0,
    maxInFlight: upstream.connections * (1 + QUEUED_PER_CONNECTION),
    websockets: 0,
    bodyMemory,
  }
}

function isBelow(path: string, prefix: string): boolean {
  if (prefix === '/' || path === prefix) return true
  return path.startsWith(prefix) && path.charCodeAt(prefix.length) === 47
}

/** Opens a driver with the Redis client that is installed. */
import { readFileSync } from 'node:fs'
import { show, SluiceError } from '@sluice/core'
import type { RedisDriver } from './driver.js'
import { REDIS_CLIENTS, type RedisClient, type RedisTls } from '../redis-options.js'
import type { RedisTarget } from './redis-target.js'
import { ClusterDriver } from './cluster-driver.js'
import type { ConnectionDeps } from './node-connection.js'
import type { HandshakeOptions } from './handshake.js'
import { type IoredisModule, ioredisSockets } from './ioredis-socket.js'
import type { RedisSocketOptions, OpenSocket } from './socket.js'
import { type NodeRedisModule, nodeRedisSockets } from './node-redis-socket.js'
import { CONNECT_TIMEOUT_MS } from './reconnect-pause.js'
import { SentinelDriver } from './sentinel-driver.js'
import { StandaloneDriver } from './standalone-driver.js'

export interface DriverOptions {
  readonly target: RedisTarget
  readonly client: RedisClient
  /** The TLS options, for a URL that uses TLS. */
  readonly tls?: RedisTls | undefined
  /** How long a node may be silent while connecting. @default 750 */
  readonly connectTimeoutMs?: number | undefined
  /** Returns numbers from 0 to 1. @default Math.random */
  readonly random?: (() => number) | undefined
}

/** Resolves before anything is connected; rejects if the client's package cannot be loaded. */
export async function openDriver(options: DriverOptions): Promise<RedisDriver> {
  const { target, client, tls, connectTimeoutMs = CONNECT_TIMEOUT_MS } = options
  if (tls !== undefined && !target.tls) {
    const accepted = 'tls together with rediss://, rediss+cluster:// or rediss+sentinel://'
    throw new SluiceError(
      'OPTION_INVALID',
      `tls: found with a URL without TLS; accepted: ${accepted}`,
    )
  }
  const openSocket = await socketOpenerOf(client, {
    connectTimeoutMs,
    tls: target.tls ? (tls ?? {}) : undefined,
  })
  return driverOf(target, { openSocket, connectTimeoutMs, random: options.random ?? Math.random })
}

const NO_CREDENTIALS: HandshakeOptions = {
  username: undefined,
  password: undefined,
  db: 0,
  mustBePrimary: false,
}

function driverOf(target: RedisTarget, deps: ConnectionDeps): RedisDriver {
  const { username, password, db } = target
  const handshake: HandshakeOptions = { ...NO_CREDENTIALS, username, password, db }
  switch (target.topology) {
    case 'cluster':
      return new ClusterDriver(target.addresses, handshake, deps)
    case 'sentinel':
      return new SentinelDriver(target, sentinelHandshake(target), handshake, deps)
    case 'standalone': {
      const [endpoint] = target.addresses
      if (endpoint === undefined) throw new SluiceError('OPTION_INVALID', 'url: found no host')
      return new StandaloneDriver(endpoint, handshake, deps)
    }
  }
}

/**
 * The sentinels' own user if the URL names one; otherwise the user of the nodes is offered to them.
 */
function sentinelHandshake({ username, password, sentinel }: RedisTarget): HandshakeOptions {
  if (sentinel !== undefined) return { ...NO_CREDENTIALS, ...sentinel }
  return { ...NO_CREDENTIALS, username, password, isPasswordOptional: true }
}

/** A `catch` beside each `import` lets bundlers leave out the clients that are not installed. */
async function socketOpenerOf(
  client: RedisClient,
  options: RedisSocketOptions,
): Promise<OpenSocket> {
  switch (client) {
    case 'ioredis': {
      const module: unknown = await import('ioredis').catch(failWith('ioredis'))
      requireIoredis(installedVersion('ioredis'))
      return ioredisSockets(module as IoredisModule, options)
    }
    case 'iovalkey': {
      const module: unknown = await import('iovalkey').catch(failWith('iovalkey'))
      return ioredisSockets(module as IoredisModule, options)
    }
    case 'node-redis': {
      const module: unknown = await import('@redis/client').catch(failWith('@redis/client'))
      return nodeRedisSockets(module as NodeRedisModule, options)
    }
    default: {
      const accepted = REDIS_CLIENTS.join(', ')
      const message = `client: found ${show(client)}; accepted: ${accepted}`
      throw new SluiceError('OPTION_INVALID', message)
    }
  }
}

const IOREDIS_MIN = [5, 3, 2] as const

/** Throws for versions before 5.3.2, which end the process by an error in one of their timers. */
export function requireIoredis(version: string | undefined): void {
  const numbers = /^(\d+)\.(\d+)\.(\d+)/
    .exec(version ?? '')
    ?.slice(1)
    .map(Number)
  // The version cannot be read in a bundle, which is not an error.
  if (numbers === undefined) return
  const differing = IOREDIS_MIN.findIndex((least, place) => numbers[place] !== least)
  if (differing === -1 || (numbers[differing] ?? 0) > (IOREDIS_MIN[differing] ?? 0)) return
  const accepted = `${IOREDIS_MIN.join('.')} or newer`
  const message = `client: found ioredis ${show(version)}; accepted: ioredis ${accepted}`
  throw new SluiceError('OPTION_INVALID', message)
}

/** The version of an installed package; undefined if it cannot be read. */
export function installedVersion(name: string): string | undefined {
  try {
    const file = new URL(import.meta.resolve(`${name}/package.json`))
    const found: unknown = JSON.parse(readFileSync(file, 'utf8'))
    const { version } = found as { readonly version?: unknown }
    return typeof version === 'string' ? version : undefined
  } catch {
    return undefined
  }
}

/** Throws what an import of a client that cannot be loaded rejects with. */
function failWith(name: string): (cause: unknown) => never {
  return (cause) => {
    const message =
      `client: found no package ${name} that could be loaded; ` +
      `accepted: npm install ${name}, or another of ${REDIS_CLIENTS.join(', ')}`
    throw new SluiceError('OPTION_INVALID', message, { cause })
  }
}

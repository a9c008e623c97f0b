/** Drivers for the Redis clients that users may have. */
import { readFileSync } from 'node:fs'
import { show, SluiceError } from '@sluice/core'
import type { RedisDriver } from '../driver.js'
import { REDIS_CLIENTS, type RedisClient, type RedisTls } from '../options.js'
import type { RedisTarget } from '../url.js'
import { ClusterDriver } from './cluster.js'
import type { ConnectionParts } from './connection.js'
import type { Greeting } from './greeting.js'
import { type IoredisModule, ioredisLinks } from './ioredis.js'
import type { LinkOptions, OpenLink } from './link.js'
import { type NodeRedisModule, nodeRedisLinks } from './node-redis.js'
import { CONNECT_TIMEOUT_MS } from './retry.js'
import { SentinelDriver } from './sentinel.js'
import { StandaloneDriver } from './standalone.js'

export interface DriverOptions {
  readonly target: RedisTarget
  readonly client: RedisClient
  /** How TLS is done, where the URL asks for it. */
  readonly tls?: RedisTls | undefined
  /** How long a node may be silent while it is being connected to. @default 750 */
  readonly connectTimeoutMs?: number | undefined
  /** Draws from 0 to 1. @default Math.random */
  readonly random?: (() => number) | undefined
}

/** Resolves before anything is connected; rejects if the client's package is not there. */
export async function openDriver(options: DriverOptions): Promise<RedisDriver> {
  const { target, client, tls, connectTimeoutMs = CONNECT_TIMEOUT_MS } = options
  if (tls !== undefined && !target.tls) {
    const accepted = 'tls together with rediss://, rediss+cluster:// or rediss+sentinel://'
    throw new SluiceError(
      'OPTION_INVALID',
      `tls: found with a URL without TLS; accepted: ${accepted}`,
    )
  }
  const openLink = await linksOf(client, {
    connectTimeoutMs,
    tls: target.tls ? (tls ?? {}) : undefined,
  })
  return driverOf(target, { openLink, connectTimeoutMs, random: options.random ?? Math.random })
}

const NOBODY: Greeting = { username: undefined, password: undefined, db: 0, mustBePrimary: false }

function driverOf(target: RedisTarget, parts: ConnectionParts): RedisDriver {
  const { username, password, db } = target
  const greeting: Greeting = { ...NOBODY, username, password, db }
  switch (target.topology) {
    case 'cluster':
      return new ClusterDriver(target.addresses, greeting, parts)
    case 'sentinel':
      return new SentinelDriver(target, sentinelGreeting(target), greeting, parts)
    case 'standalone': {
      const [where] = target.addresses
      if (where === undefined) throw new SluiceError('OPTION_INVALID', 'url: found no host')
      return new StandaloneDriver(where, greeting, parts)
    }
  }
}

/** With their own user where the URL names one; else that of the nodes is offered to them. */
function sentinelGreeting({ username, password, sentinel }: RedisTarget): Greeting {
  if (sentinel !== undefined) return { ...NOBODY, ...sentinel }
  return { ...NOBODY, username, password, isPasswordOptional: true }
}

async function linksOf(client: RedisClient, options: LinkOptions): Promise<OpenLink> {
  switch (client) {
    case 'ioredis': {
      const module = await load<IoredisModule>(client, () => import('ioredis'))
      requireIoredis(installedVersion('ioredis'))
      return ioredisLinks(module, options)
    }
    case 'iovalkey':
      return ioredisLinks(await load<IoredisModule>(client, () => import('iovalkey')), options)
    case 'node-redis':
      return nodeRedisLinks(
        await load<NodeRedisModule>('@redis/client', () => import('@redis/client')),
        options,
      )
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
  // One that cannot be read, as in a bundle, is nobody's mistake.
  if (numbers === undefined) return
  const differing = IOREDIS_MIN.findIndex((least, place) => numbers[place] !== least)
  if (differing === -1 || (numbers[differing] ?? 0) > (IOREDIS_MIN[differing] ?? 0)) return
  const accepted = `${IOREDIS_MIN.join('.')} or newer`
  const message = `client: found ioredis ${show(version)}; accepted: ioredis ${accepted}`
  throw new SluiceError('OPTION_INVALID', message)
}

/** Undefined where it cannot be found out. */
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

async function load<Module>(name: string, importIt: () => Promise<unknown>): Promise<Module> {
  try {
    return (await importIt()) as Module
  } catch (error) {
    const message =
      `client: found no package ${name} that could be loaded; ` +
      `accepted: npm install ${name}, or another of ${REDIS_CLIENTS.join(', ')}`
    throw new SluiceError('OPTION_INVALID', message, { cause: error })
  }
}

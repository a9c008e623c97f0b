/** Writes a set of `conformance/formats` with the present code, on real servers. */
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type AdminClient, createAdminClient } from '@sluice/client'
import {
  keysFile,
  playCounters,
} from '../../packages/limiter/src/redis/protocol/format-counters.test-helper.js'
import {
  FORMAT_CASES,
  type FormatResult,
  playFormatCase,
} from '../../packages/limiter/src/redis/protocol/format-cases.test-helper.js'
import {
  keyOf,
  startBatchRedis,
} from '../../packages/limiter/src/redis/protocol/redis.test-helper.js'
import {
  decodeSnapshot,
  encodeSnapshot,
} from '../../packages/server/src/observability/stats/node-snapshot-codec.js'
import { type PostgresServer, startPostgres } from '../../tools/postgres/server.js'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'
import { waitFor } from '../process.test-helper.js'
import { type RunningServer, start } from '../serve.test-helper.js'
import {
  changeRules,
  DURABLE_MAX,
  readContent,
  type RulesFixture,
} from './rules-content.test-helper.js'

/** `counters.json`: describes the counters and callers in a data directory. */
export interface CountersFixture {
  /** When it was written, in microseconds since 1970. */
  readonly clock: number
  readonly user: string
  readonly limit: number
  readonly remaining: number
  /** A caller that a durable rule blocks; sets before 0.2.0 have none. */
  readonly blocked?: { readonly user: string; readonly untilMs: number }
}

/** Replaces the name of the machine that wrote a set. */
const MACHINE = 'node-a'
const USER = 'u9'
const BLOCKED_USER = 'u6'
const CALLS = DURABLE_MAX - 2

export async function writeSet(folder: string): Promise<void> {
  await writeRedisFiles(folder)
  await writeDataDir(folder)
  await writeShared(folder)
}

function writeJson(folder: string, file: string, content: object): void {
  writeFileSync(join(folder, file), `${linesOf(content)}\n`)
}

/**
 * JSON with one line for each top-level field and for each item of a list, so that it is readable.
 */
function linesOf(content: object): string {
  if (Array.isArray(content)) {
    return `[\n${content.map((item) => JSON.stringify(item)).join(',\n')}\n]`
  }
  const fields = Object.entries(content).map(([name, value]: [string, unknown]) => {
    const isList = Array.isArray(value) && value.some((item) => typeof item === 'object')
    return `${JSON.stringify(name)}: ${isList ? linesOf(value) : JSON.stringify(value)}`
  })
  return `{\n${fields.join(',\n')}\n}`
}

async function writeRedisFiles(folder: string): Promise<void> {
  const redis = await startBatchRedis()
  try {
    const values: FormatResult[] = []
    for (const [index, each] of FORMAT_CASES.entries()) {
      values.push(await playFormatCase(redis, each, keyOf(index + 1)))
    }
    writeJson(folder, 'redis-values.json', values)
    await redis.client.flushall()
    const plain = await playCounters(redis.server, 'plain')
    await redis.client.flushall()
    const packed = await playCounters(redis.server, 'packed')
    writeJson(folder, 'redis-plain.json', plain.dump)
    writeJson(folder, 'redis-packed.json', packed.dump)
    writeJson(folder, 'redis-keys.json', keysFile({ plain: plain.names, packed: packed.names }))
  } finally {
    await redis.stop()
  }
}

/** With the token that the server generated. */
export function clientOf({ admin, folder }: Pick<RunningServer, 'admin' | 'folder'>): AdminClient {
  const token = readFileSync(join(folder, '.sluice/admin-token'), 'utf8').trim()
  return createAdminClient({ url: admin, token })
}

/** A single server: rules in files, counters in memory. */
async function writeDataDir(folder: string): Promise<void> {
  const server = await start()
  const client = clientOf(server)
  const secrets = await changeRules(client)
  const counters = await useBudget(server, secrets.activeKey)
  const fixture: RulesFixture = { ...(await readContent(client)), secrets }
  await end(server)
  copyDataDir(server, join(folder, 'data-dir'))
  writeJson(folder, 'rules.json', fixture)
  writeJson(folder, 'counters.json', counters)
}

/** Uses a part of one durable limit, and all of another. */
async function useBudget({ gateway, api }: RunningServer, key: string): Promise<CountersFixture> {
  const headers = { 'x-api-key': key }
  for (let n = 0; n < CALLS; n++) {
    await fetch(`${gateway}/v1/exports`, { method: 'POST', headers })
  }
  for (let n = 0; n < 2 * DURABLE_MAX; n++) {
    await fetch(`${api}/v1/check`, { method: 'POST', body: callOf('u8') })
  }
  const peek = async (body: string) => {
    const response = await fetch(`${api}/v1/peek`, { method: 'POST', body })
    return (await response.json()) as CountersFixture & { readonly retryAfterMs: number }
  }
  const attempt = callOf(BLOCKED_USER, '/v1/attempts')
  for (let n = 0; n < 2; n++) await fetch(`${api}/v1/check`, { method: 'POST', body: attempt })
  const { limit, remaining } = await peek(callOf(USER))
  const { retryAfterMs } = await peek(attempt)
  const nowMs = Date.now()
  const blocked = { user: BLOCKED_USER, untilMs: nowMs + retryAfterMs }
  return { clock: nowMs * 1000, user: USER, limit, remaining, blocked }
}

function callOf(user: string, path = '/v1/exports'): string {
  return JSON.stringify({ attributes: { user, method: 'POST', path } })
}

async function end({ program }: RunningServer): Promise<void> {
  program.signal('SIGTERM')
  const code = await program.code()
  if (code !== 0) throw new Error(`it ended with ${code}:\n${program.output()}`)
}

/** Removes the machine name, which a released lock contains. */
function copyDataDir({ folder }: RunningServer, to: string): void {
  mkdirSync(to)
  cpSync(join(folder, '.sluice'), to, { recursive: true })
  const lock = join(to, 'rules/lock.1')
  if (!existsSync(lock)) return
  const holder = JSON.parse(readFileSync(lock, 'utf8')) as object
  writeFileSync(lock, `${JSON.stringify({ ...holder, host: MACHINE, place: MACHINE })}\n`)
}

/** A node of a fleet: rules in Postgres, counters in Redis. */
async function writeShared(folder: string): Promise<void> {
  const postgres = await startPostgres()
  const redis = await startRedis()
  try {
    const url = await postgres.createDatabase()
    const server = await start({
      SLUICE_DATABASE_URL: url,
      SLUICE_REDIS_URL: redis.url,
    })
    const client = clientOf(server)
    const secrets = await changeRules(client)
    await useBudget(server, secrets.activeKey)
    writeFileSync(join(folder, 'node-snapshot.txt'), `${await snapshotOf(server, redis)}\n`)
    const fixture: RulesFixture = { ...(await readContent(client)), secrets }
    await end(server)
    writeJson(folder, 'postgres.json', fixture)
    writeFileSync(join(folder, 'postgres.sql'), await dumpOf(postgres, url))
    copyDataDir(server, join(folder, 'data-dir-shared'))
  } finally {
    await redis.stop()
    await postgres.stop()
  }
}

/** The snapshot that the node publishes after some calls, without the machine name. */
async function snapshotOf({ program }: RunningServer, redis: RedisServer): Promise<string> {
  let found: string | undefined
  await waitFor(program, async () => {
    const [key] = (await redis.call('KEYS', '*:board:*')) as readonly string[]
    const posted = key === undefined ? undefined : await redis.cli('GET', key)
    const snapshot = posted === undefined ? undefined : await decodeSnapshot(posted)
    if (snapshot === undefined || snapshot.rules.length === 0 || snapshot.callers.length === 0)
      return false
    found = await encodeSnapshot({ ...snapshot, node: { ...snapshot.node, host: MACHINE } })
    return true
  })
  return found ?? ''
}

async function dumpOf(postgres: PostgresServer, url: string): Promise<string> {
  const sql = await postgres.run(
    'pg_dump',
    '--inserts',
    '--no-owner',
    '--no-privileges',
    // Reports of nodes: they contain machine names, and expire within a minute.
    '--exclude-table-data=sluice.nodes',
    '-d',
    url,
  )
  // Commands that only some releases of psql understand.
  return sql.replaceAll(/^\\(un)?restrict .*\n/gm, '')
}

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../../../../tools/redis/server.mjs'
import type { RunCommand } from '../connection/run-command.js'
import { openChannel, type TestChannel } from '../connection/channel.test-helper.js'
import { RedisConnectionError, RedisReplyError } from '../connection/driver.js'
import { probeKey } from '../protocol/redis-keys.js'
import { type StartCheckOptions, checkStore } from './start-checks.js'

const usual = {
  address: '10.0.0.1:6379',
  topology: 'standalone',
  allowEviction: false,
  layout: 'plain',
  probeKey: probeKey('sluice', 'home'),
} as const satisfies StartCheckOptions

/** A store whose replies the test chooses. */
function fakeAsk(info: Readonly<Record<string, string | number>>, config?: string): RunCommand {
  const fields = {
    redis_version: '7.0.15',
    role: 'master',
    cluster_enabled: 0,
    maxmemory: 1000,
    maxmemory_policy: 'noeviction',
    ...info,
  }
  const lines = Object.entries(fields).map(([name, value]) => `${name}:${value}\r\n`)
  return (words) => {
    if (words[0] === 'INFO') return Promise.resolve(Buffer.from(lines.join('')))
    if (config === undefined) return Promise.reject(new RedisReplyError('NOPERM no CONFIG'))
    return Promise.resolve([Buffer.from('save'), Buffer.from(config)])
  }
}

const warningsOf = async (ask: RunCommand, options: StartCheckOptions = usual) =>
  (await checkStore(ask, options)).warnings

describe('an unfit store is rejected', () => {
  const unfit: readonly [string, Record<string, string>, Partial<StartCheckOptions>, string][] = [
    [
      'older than 6.0',
      { redis_version: '5.0.14' },
      {},
      'found Redis 5.0.14; accepted: 6.0 or newer',
    ],
    ['of no version', { redis_version: '' }, {}, 'found Redis ; accepted: 6.0 or newer'],
    [
      'part of an unexpected Cluster',
      { cluster_enabled: '1' },
      {},
      'found a node of a Cluster behind a URL of another kind; ' +
        'accepted: redis+cluster://10.0.0.1:6379',
    ],
    [
      'no Cluster',
      {},
      { topology: 'cluster' },
      'found no node of a Cluster behind redis+cluster://; accepted: redis://10.0.0.1:6379',
    ],
    [
      'evicting',
      { maxmemory_policy: 'volatile-ttl' },
      {},
      'found maxmemory-policy volatile-ttl; accepted: noeviction, because an evicted counter ' +
        'hands its whole budget out again (allowEviction: true overrides this)',
    ],
  ]

  test.each(unfit)('if it is %s', async (_name, info, options, problem) => {
    const checked = checkStore(fakeAsk(info, ''), { ...usual, ...options })
    await expect(checked).rejects.toMatchObject({
      code: 'STORE_UNFIT',
      message: `Redis at 10.0.0.1:6379: ${problem}`,
    })
  })

  test('if its INFO is not that of a Redis', async () => {
    const checked = checkStore(() => Promise.resolve(Buffer.from('hello')), usual)
    await expect(checked).rejects.toMatchObject({ code: 'STORE_UNFIT' })
  })
})

describe('a store that refuses this node is rejected', () => {
  test('if the user may not run INFO', async () => {
    const cause = new RedisReplyError("NOPERM this user has no permissions to run 'info'")
    await expect(checkStore(() => Promise.reject(cause), usual)).rejects.toMatchObject({
      code: 'STORE_REFUSED',
      cause,
    })
  })

  test('if it is a replica, which may be another server a moment later', async () => {
    let replicas = 0
    const onReplica = () => {
      replicas += 1
    }
    const checked = checkStore(fakeAsk({ role: 'slave' }, ''), { ...usual, onReplica })
    await expect(checked).rejects.toMatchObject({
      code: 'STORE_REFUSED',
      message:
        'Redis at 10.0.0.1:6379: found a replica, which cannot be written to; accepted: the primary',
    })
    expect(replicas).toBe(1)
  })
})

describe('a store is not rejected as unfit', () => {
  test.each(['sentinel', 'cluster'] as const)(
    'for being a replica during a failover (%s)',
    async (topology) => {
      const ask = fakeAsk({ role: 'slave', cluster_enabled: topology === 'cluster' ? 1 : 0 }, '')
      await expect(checkStore(ask, { ...usual, topology })).rejects.toMatchObject({
        code: 'STORE_FAILED',
        message: 'Redis at 10.0.0.1:6379 is a replica now; looking for its primary',
      })
    },
  )

  test('for a layout that cannot be probed', async () => {
    const options = { ...usual, layout: 'packed', probeKey: undefined } as const
    expect(await warningsOf(fakeAsk({}, ''), options)).toEqual([])
  })

  test.each([new RedisConnectionError('gone'), new RedisReplyError('LOADING in memory')])(
    'for a transient error: %s',
    async (error) => {
      await expect(checkStore(() => Promise.reject(error), usual)).rejects.toBe(error)
    },
  )
})

describe('the warnings of the start checks', () => {
  test('do not appear for a store without problems', async () => {
    const checked = await checkStore(fakeAsk({ used_memory: 7, aof_enabled: 1 }, ''), usual)
    expect(checked).toMatchObject({
      version: 'Redis 7.0.15',
      warnings: [],
      aof: true,
      usedBytes: 7,
      maxBytes: 1000,
    })
  })

  test('name an eviction policy that is allowed', async () => {
    const ask = fakeAsk({ maxmemory_policy: 'allkeys-lru' }, '')
    expect(await warningsOf(ask, { ...usual, allowEviction: true })).toEqual([
      'Redis at 10.0.0.1:6379: maxmemory-policy is allkeys-lru: an evicted counter hands its ' +
        'whole budget out again; accepted: noeviction',
    ])
  })

  test('name a missing maxmemory', async () => {
    expect(await warningsOf(fakeAsk({ maxmemory: 0 }, ''))).toEqual([
      expect.stringContaining('maxmemory is 0'),
    ])
  })

  test('name a Redis that loses durable rules', async () => {
    const durable = { ...usual, durable: true }
    expect(await warningsOf(fakeAsk({ aof_enabled: 0 }, ''), durable)).toEqual([
      expect.stringContaining('appendonly is off'),
    ])
    expect(await warningsOf(fakeAsk({ aof_enabled: 1 }, ''), durable)).toEqual([])
  })

  test('name snapshots, by the configuration if it can be read', async () => {
    const snapshots = [expect.stringContaining('snapshots (save) are on')]
    expect(await warningsOf(fakeAsk({}, '3600 1 300 100'))).toEqual(snapshots)
    expect(await warningsOf(fakeAsk({ rdb_saves: 3 }, ''))).toEqual([])
  })

  test('name snapshots, by those taken if it cannot be read', async () => {
    const snapshots = [expect.stringContaining('snapshots (save) are on')]
    expect(await warningsOf(fakeAsk({ rdb_saves: 1 }))).toEqual(snapshots)
    expect(await warningsOf(fakeAsk({ rdb_last_bgsave_time_sec: 0 }))).toEqual(snapshots)
    expect(await warningsOf(fakeAsk({ rdb_last_bgsave_time_sec: -1, rdb_saves: 0 }))).toEqual([])
    // A replica that joins needs one as well.
    expect(await warningsOf(fakeAsk({ rdb_saves: 1, connected_slaves: 1 }))).toEqual([])
  })
})

describe('a real Redis', () => {
  let server: RedisServer
  let channel: TestChannel
  const others: { stop(): Promise<void> }[] = []

  beforeAll(async () => {
    server = await startRedis({ config: ['--maxmemory', '100mb'] })
    channel = await openChannel(server.port)
  })
  afterEach(async () => {
    for (const other of others.splice(0)) await other.stop()
  })
  afterAll(async () => {
    channel?.close()
    await server?.stop()
  })

  async function checkOther(config: readonly string[], options: Partial<StartCheckOptions>) {
    const other = await startRedis({ config })
    others.push(other)
    const connection = await openChannel(other.port)
    others.push({ stop: async () => connection.close() })
    return checkStore(connection.run, { ...usual, ...options })
  }

  test('passes without a warning if it is configured well', async () => {
    for (const layout of ['plain', 'packed'] as const) {
      const checked = await checkStore(channel.run, { ...usual, layout })
      const { version, warnings, aof, maxBytes, keys } = checked
      expect(version).toMatch(/^(Redis|Valkey) \d+\.\d+/)
      expect([warnings, aof, maxBytes, keys]).toEqual([[], false, 104_857_600, 0])
    }
    expect(await server.call('DBSIZE')).toBe(0)
  })

  test('passes the probes of ten nodes at once, and keeps nothing of them', async () => {
    const packed = { ...usual, layout: 'packed' } as const
    await Promise.all(Array.from({ length: 10 }, () => checkStore(channel.run, packed)))
    expect(await server.call('DBSIZE')).toBe(0)
  })

  test.each([
    ['--hash-max-listpack-entries', '299'],
    ['--hash-max-listpack-value', '19'],
  ])('fails for the packed layout only with %s %s', async (...config) => {
    await expect(checkOther(config, { layout: 'packed' })).rejects.toMatchObject({
      code: 'STORE_UNFIT',
      message:
        'Redis at 10.0.0.1:6379: keeps a hash of 300 counters as hashtable, which takes several ' +
        'times the memory; accepted: listpack, by hash-max-listpack-entries of at least 300 ' +
        '(default 512) and hash-max-listpack-value of at least 20 (default 64), or the layout plain',
    })
    expect((await checkOther(config, {})).version).toMatch(/^\w+ \d/)
  })

  test.each([
    ['--hash-max-listpack-entries', '300'],
    ['--hash-max-listpack-value', '20'],
  ])('passes for the packed layout with %s %s', async (...config) => {
    expect((await checkOther(config, { layout: 'packed' })).version).toMatch(/^\w+ \d/)
  })

  test('fails if it evicts, unless that is allowed', async () => {
    const config = ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru']
    const checked = checkOther(config, {})
    await expect(checked).rejects.toMatchObject({ code: 'STORE_UNFIT' })
    const { warnings } = await checkOther(config, { allowEviction: true })
    expect(warnings).toHaveLength(1)
  })

  test('fails with another URL if it is part of a Cluster, and passes with its own', async () => {
    const config = ['--cluster-enabled', 'yes', '--maxmemory', '100mb']
    await expect(checkOther(config, {})).rejects.toThrow('redis+cluster://')
    expect((await checkOther(config, { topology: 'cluster' })).warnings).toEqual([])
  })

  test('fails if it is a replica', async () => {
    const config = ['--replicaof', '127.0.0.1', String(server.port)]
    await expect(checkOther(config, {})).rejects.toThrow('found a replica')
  })

  test('causes warnings if it has snapshots, no maxmemory and no AOF for durable rules', async () => {
    const config = ['--save', '3600 1']
    const { warnings } = await checkOther(config, { durable: true })
    expect(warnings).toEqual([
      expect.stringContaining('maxmemory is 0'),
      expect.stringContaining('appendonly is off'),
      expect.stringContaining('snapshots (save) are on'),
    ])
    const { aof } = await checkOther(['--appendonly', 'yes'], { durable: true })
    expect(aof).toBe(true)
  })
})

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

/** A store that says what the test wants it to say. */
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

describe('a store is unfit', () => {
  const unfit: readonly [string, Record<string, string>, Partial<StartCheckOptions>, string][] = [
    [
      'older than 6.0',
      { redis_version: '5.0.14' },
      {},
      'found Redis 5.0.14; accepted: 6.0 or newer',
    ],
    ['of no version', { redis_version: '' }, {}, 'found Redis ; accepted: 6.0 or newer'],
    [
      'part of a Cluster that nobody said it was',
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

  test.each(unfit)('that is %s', async (_name, info, options, problem) => {
    const checked = checkStore(fakeAsk(info, ''), { ...usual, ...options })
    await expect(checked).rejects.toMatchObject({
      code: 'STORE_UNFIT',
      message: `Redis at 10.0.0.1:6379: ${problem}`,
    })
  })

  test('that answers INFO as no Redis does', async () => {
    const checked = checkStore(() => Promise.resolve(Buffer.from('hello')), usual)
    await expect(checked).rejects.toMatchObject({ code: 'STORE_UNFIT' })
  })
})

describe('a store refuses this node', () => {
  test('that does not let us run INFO', async () => {
    const cause = new RedisReplyError("NOPERM this user has no permissions to run 'info'")
    await expect(checkStore(() => Promise.reject(cause), usual)).rejects.toMatchObject({
      code: 'STORE_REFUSED',
      cause,
    })
  })

  test('that is a replica, which may be another server a moment later', async () => {
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

describe('a store is not called unfit', () => {
  test.each(['sentinel', 'cluster'] as const)(
    'for being a replica amid a failover (%s)',
    async (topology) => {
      const ask = fakeAsk({ role: 'slave', cluster_enabled: topology === 'cluster' ? 1 : 0 }, '')
      await expect(checkStore(ask, { ...usual, topology })).rejects.toMatchObject({
        code: 'STORE_FAILED',
        message: 'Redis at 10.0.0.1:6379 is a replica now; its primary is looked for',
      })
    },
  )

  test('for a layout that nothing of it can be probed for', async () => {
    const options = { ...usual, layout: 'packed', probeKey: undefined } as const
    expect(await warningsOf(fakeAsk({}, ''), options)).toEqual([])
  })

  test.each([new RedisConnectionError('gone'), new RedisReplyError('LOADING in memory')])(
    'for what may pass: %s',
    async (error) => {
      await expect(checkStore(() => Promise.reject(error), usual)).rejects.toBe(error)
    },
  )
})

describe('a store is warned of', () => {
  test('that has nothing wrong: not at all', async () => {
    const checked = await checkStore(fakeAsk({ used_memory: 7, aof_enabled: 1 }, ''), usual)
    expect(checked).toMatchObject({
      version: 'Redis 7.0.15',
      warnings: [],
      aof: true,
      usedBytes: 7,
      maxBytes: 1000,
    })
  })

  test('that evicts, where that is allowed', async () => {
    const ask = fakeAsk({ maxmemory_policy: 'allkeys-lru' }, '')
    expect(await warningsOf(ask, { ...usual, allowEviction: true })).toEqual([
      'Redis at 10.0.0.1:6379: maxmemory-policy is allkeys-lru: an evicted counter hands its ' +
        'whole budget out again; accepted: noeviction',
    ])
  })

  test('that has no bound', async () => {
    expect(await warningsOf(fakeAsk({ maxmemory: 0 }, ''))).toEqual([
      expect.stringContaining('maxmemory is 0'),
    ])
  })

  test('that forgets durable rules', async () => {
    const durable = { ...usual, durable: true }
    expect(await warningsOf(fakeAsk({ aof_enabled: 0 }, ''), durable)).toEqual([
      expect.stringContaining('appendonly is off'),
    ])
    expect(await warningsOf(fakeAsk({ aof_enabled: 1 }, ''), durable)).toEqual([])
  })

  test('that forks for snapshots, by its configuration where we may read it', async () => {
    const snapshots = [expect.stringContaining('snapshots (save) are on')]
    expect(await warningsOf(fakeAsk({}, '3600 1 300 100'))).toEqual(snapshots)
    expect(await warningsOf(fakeAsk({ rdb_saves: 3 }, ''))).toEqual([])
  })

  test('that forks for snapshots, by those it has taken where we may not', async () => {
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

  test('that is set up as it should be passes without a word', async () => {
    for (const layout of ['plain', 'packed'] as const) {
      const checked = await checkStore(channel.run, { ...usual, layout })
      const { version, warnings, aof, maxBytes, keys } = checked
      expect(version).toMatch(/^(Redis|Valkey) \d+\.\d+/)
      expect([warnings, aof, maxBytes, keys]).toEqual([[], false, 104_857_600, 0])
    }
    expect(await server.call('DBSIZE')).toBe(0)
  })

  test('is probed by ten nodes at once, and keeps nothing of it', async () => {
    const packed = { ...usual, layout: 'packed' } as const
    await Promise.all(Array.from({ length: 10 }, () => checkStore(channel.run, packed)))
    expect(await server.call('DBSIZE')).toBe(0)
  })

  test.each([
    ['--hash-max-listpack-entries', '299'],
    ['--hash-max-listpack-value', '19'],
  ])('with %s %s is unfit for the packed layout only', async (...config) => {
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
  ])('with %s %s is fit for it', async (...config) => {
    expect((await checkOther(config, { layout: 'packed' })).version).toMatch(/^\w+ \d/)
  })

  test('that evicts is unfit unless it is allowed', async () => {
    const config = ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru']
    const checked = checkOther(config, {})
    await expect(checked).rejects.toMatchObject({ code: 'STORE_UNFIT' })
    const { warnings } = await checkOther(config, { allowEviction: true })
    expect(warnings).toHaveLength(1)
  })

  test('of a Cluster is unfit for another URL, and fit for its own', async () => {
    const config = ['--cluster-enabled', 'yes', '--maxmemory', '100mb']
    await expect(checkOther(config, {})).rejects.toThrow('redis+cluster://')
    expect((await checkOther(config, { topology: 'cluster' })).warnings).toEqual([])
  })

  test('that is a replica is refused', async () => {
    const config = ['--replicaof', '127.0.0.1', String(server.port)]
    await expect(checkOther(config, {})).rejects.toThrow('found a replica')
  })

  test('that snapshots, has no bound and no AOF for durable rules is warned of', async () => {
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

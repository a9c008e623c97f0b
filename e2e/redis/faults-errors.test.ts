/** Every error of Redis leads to an action and to a decision, never to an exception. */
import { createLimiter, type Decision, type Limiter } from '@sluice/limiter'
import { type RedisStore, redisStore } from '@sluice/limiter/redis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'
import { waitFor } from '../../tools/redis/wait-for.js'
import { type RespShim, startRespShim } from './resp-shim.test-helper.js'

let server: RedisServer
let shim: RespShim

beforeAll(async () => {
  server = await startRedis()
  shim = await startRespShim(server.port)
})
afterAll(async () => {
  await shim.stop()
  await server.stop()
})

const rules = (['open', 'closed'] as const).map((posture) => ({
  id: posture,
  match: { where: { kind: [posture] } },
  by: ['user'],
  posture,
  limits: [{ algorithm: 'fixed-window', max: 1000, window: '366d', name: 'all' } as const],
}))

/** The outcome of a call whose script is answered once, and then always, with an error. */
interface Case {
  readonly code: string
  readonly text: string
  /** The decision if one error is followed by success. */
  readonly once: 'store' | 'posture'
  readonly always: 'store' | 'posture'
  /** Whether a problem is reported. */
  readonly loud: boolean
  /** Whether the connection is replaced. */
  readonly reconnects?: boolean
}

const passing = { once: 'store', always: 'posture', loud: false } as const
const silent = { once: 'posture', always: 'posture', loud: false } as const
const loud = { once: 'posture', always: 'posture', loud: true } as const

const CASES: readonly Case[] = [
  { code: 'NOSCRIPT', text: 'NOSCRIPT No matching script.', ...passing, always: 'store' },
  { code: 'MOVED', text: 'MOVED 3999 <self>', ...passing },
  { code: 'ASK', text: 'ASK 3999 <self>', ...passing },
  { code: 'TRYAGAIN', text: 'TRYAGAIN Multiple keys request during rehashing of slot', ...passing },
  { code: 'CLUSTERDOWN', text: 'CLUSTERDOWN The cluster is down', ...passing },
  { code: 'LOADING', text: 'LOADING Redis is loading the dataset in memory', ...passing },
  { code: 'OOM', text: "OOM command not allowed when used memory > 'maxmemory'.", ...silent },
  {
    code: 'READONLY',
    text: "READONLY You can't write against a read only replica.",
    ...silent,
    reconnects: true,
  },
  {
    code: 'MASTERDOWN',
    text: "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    ...silent,
    reconnects: true,
  },
  { code: 'BUSY', text: 'BUSY Redis is busy running a script.', ...silent },
  { code: 'NOREPLICAS', text: 'NOREPLICAS Not enough good replicas to write.', ...silent },
  { code: 'MAXCLIENTS', text: 'ERR max number of clients reached', ...silent },
  { code: 'WRONGTYPE', text: 'WRONGTYPE Operation against a key', ...silent },
  { code: 'MISCONF', text: 'MISCONF Redis is configured to save RDB snapshots', ...loud },
  { code: 'NOAUTH', text: 'NOAUTH Authentication required.', ...loud },
  { code: 'WRONGPASS', text: 'WRONGPASS invalid username-password pair', ...loud },
  { code: 'NOPERM', text: 'NOPERM this user has no permissions to run evalsha', ...loud },
  { code: 'CROSSSLOT', text: "CROSSSLOT Keys in request don't hash to the same slot", ...loud },
  { code: 'ERR', text: 'ERR something nobody has ever seen', ...loud },
]

describe('an error reply of Redis', () => {
  const errors: string[] = []
  const problems: string[] = []
  let store: RedisStore
  let limiter: Limiter

  beforeEach(async () => {
    shim.interject = () => undefined
    errors.length = 0
    problems.length = 0
    store = redisStore({
      url: shim.url,
      // A long deadline, because the test is about replies and not about latency.
      deadlineMs: 10_000,
      observer: {
        error: (code) => {
          errors.push(code)
        },
        problem: (problem) => {
          problems.push(problem)
        },
      },
    })
    limiter = createLimiter({ rules, store })
    await limiter.ready()
    await waitFor('a lane', async () => store.stats().nodes[0]?.isAnswering)
  })
  afterEach(() => limiter.close())

  const decide = (kind: string): Promise<Decision> =>
    limiter.check({ attributes: { kind, user: 'u1' } })

  const isBack = () =>
    waitFor('an answer of the store', async () => (await decide('open')).source === 'store')

  /** Only scripts that decide; the fleet has its own. */
  const isBatch = ([name = '', , , key = '']: readonly string[]) =>
    /^EVALSHA$/i.test(name) && !key.includes('{home}')

  test.each(CASES)('$code', async (expected) => {
    const text = `-${expected.text.replace('<self>', shim.address)}\r\n`
    let left = 1
    shim.interject = (words) => {
      if (left === 0 || !isBatch(words)) return undefined
      left -= 1
      return text
    }
    const once = await decide('closed')
    expect([once.source, once.allowed]).toEqual([expected.once, expected.once === 'store'])
    expect(errors).toContain(expected.code)
    const reported = problems.filter((problem) => problem.includes(expected.text.slice(0, 20)))
    expect(reported.length > 0).toBe(expected.loud)
    await isBack()

    left = Infinity
    const [open, closed] = await Promise.all([decide('open'), decide('closed')])
    expect([open.source, closed.source]).toEqual([expected.always, expected.always])
    expect([open.allowed, closed.allowed]).toEqual([true, expected.always === 'store'])
    left = 0
    await isBack()
  })

  test('belongs to the known codes, of which 17 are in this list', () => {
    expect(CASES.filter(({ code }) => code !== 'ERR').length).toBeGreaterThanOrEqual(17)
  })
})

describe('a proxy that shards behind one address', () => {
  test('refuses mixed scripts once, and every call is still decided by the store', async () => {
    const tagOf = (key: string) => /\{([^}]*)\}/.exec(key)?.[1]
    shim.interject = (words) => {
      const [name = '', , count = '0', ...rest] = words
      if (!/^EVAL(SHA)?$/i.test(name)) return undefined
      const tags = new Set(rest.slice(0, Number(count)).map(tagOf))
      return tags.size > 1
        ? "-CROSSSLOT Keys in request don't hash to the same slot\r\n"
        : undefined
    }
    const problems: string[] = []
    const store = redisStore({
      url: shim.url,
      prefix: 'proxied',
      deadlineMs: 10_000,
      observer: { problem: (problem) => problems.push(problem) },
    })
    const limit = { algorithm: 'fixed-window', max: 30, window: '366d' } as const
    const limiter = createLimiter({
      rules: [
        { id: 'by-user', by: ['user'], posture: 'closed', limits: [limit] },
        { id: 'by-ip', by: ['ip'], posture: 'closed', limits: [limit] },
      ],
      store,
    })
    await limiter.ready()
    await waitFor('a lane', async () => store.stats().nodes[0]?.isAnswering)
    const calls = Array.from({ length: 64 }, (_, n) => ({
      attributes: { user: `u${n % 16}`, ip: `203.0.113.${n % 8}` },
    }))
    const decisions = await Promise.all(calls.map((call) => limiter.check(call)))
    expect(decisions.filter(({ source }) => source !== 'store')).toEqual([])
    expect(decisions.every(({ allowed }) => allowed)).toBe(true)
    const left = await limiter.peek({ attributes: { user: 'u1', ip: '203.0.113.1' } })
    expect(left.remaining).toBe(30 - 8)
    expect(problems.filter((problem) => problem.includes('CROSSSLOT'))).toEqual([
      `Redis ${shim.address} shards its keys behind one address (CROSSSLOT): sending one script for each partition from now on`,
    ])
    await limiter.close()
    shim.interject = () => undefined
  })
})

describe('two nodes with different secrets', () => {
  test('do not both start, and the second reports why', async () => {
    const secret = (byte: number) => new Uint8Array(16).fill(byte)
    const options = { url: server.url, prefix: 'secrets' }
    const first = redisStore({ ...options, secret: secret(1) })
    await first.ready
    const second = redisStore({ ...options, secret: secret(2) })
    const limiter = createLimiter({ rules, store: second, secret: secret(2) })
    await expect(second.ready).rejects.toMatchObject({ code: 'KEY_SECRET_DIFFERS' })
    await expect(limiter.ready()).rejects.toMatchObject({ code: 'KEY_SECRET_DIFFERS' })
    // It still decides, by posture, and counts nothing under wrong names.
    const decisions = await Promise.all(
      ['open', 'closed'].map((kind) => limiter.check({ attributes: { kind, user: 'u1' } })),
    )
    expect(decisions.map(({ source, allowed }) => [source, allowed])).toEqual([
      ['posture', true],
      ['posture', false],
    ])
    const keys = await server.call('KEYS', 'secrets:*')
    expect(keys).not.toEqual([])
    expect((keys as readonly string[]).filter((key) => !key.includes('{home}'))).toEqual([])
    await Promise.all([first.close(), limiter.close()])
  })
})

import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type RedisServer, scanWithoutTtl, startRedis } from '../../../../../tools/redis/server.mjs'
import {
  FakeScheduler,
  openChannel,
  settled,
  type TestChannel,
} from '../connection/channel.test-helper.js'
import type { RunCommand } from '../connection/run-command.js'
import { RedisConnectionError } from '../connection/driver.js'
import { storeKeys } from '../protocol/redis-keys.js'
import { agreeOnSecret, fingerprintOf, renewSecret, SecretKeeper } from './hash-secret.js'

const prefix = 'sluice'
const keys = storeKeys(prefix)
const DAY_MS = 86_400_000
const LIFE_S = 400 * 86_400
const one = new Uint8Array(16).fill(1)
const two = new Uint8Array(16).fill(2)

let server: RedisServer
let channel: TestChannel

beforeAll(async () => {
  server = await startRedis()
  channel = await openChannel(server.port)
})
afterAll(async () => {
  channel?.close()
  await server?.stop()
})
beforeEach(async () => {
  await server.call('FLUSHALL')
})

/** Whether each key has its whole TTL left, apart from the time of the test. */
const areNew = async (...names: readonly string[]) => {
  const ttls = await server.pipeline(names.map((name) => ['TTL', name]))
  return ttls.every((ttl) => Number(ttl) > LIFE_S - 3600 && Number(ttl) <= LIFE_S)
}

describe('a fingerprint', () => {
  test('has 16 hex digits that depend on the secret only', () => {
    expect(fingerprintOf(one)).toMatch(/^[0-9a-f]{16}$/)
    expect(fingerprintOf(one)).toBe(fingerprintOf(Uint8Array.from(one)))
    expect(fingerprintOf(one)).not.toBe(fingerprintOf(two))
  })
})

describe('agreeing on a secret', () => {
  test('nodes without a configured secret that start together agree on one', async () => {
    const channels = await Promise.all(Array.from({ length: 10 }, () => openChannel(server.port)))
    const secrets = await Promise.all(
      channels.map(({ run: ask }) => agreeOnSecret(ask, { prefix })),
    )
    for (const each of channels) each.close()
    expect(new Set(secrets.map((secret) => Buffer.from(secret).toString('hex'))).size).toBe(1)
    expect(secrets[0]).toHaveLength(16)
    expect(await agreeOnSecret(channel.run, { prefix })).toEqual(secrets[0])
  })

  test('all keys live 400 days', async () => {
    await agreeOnSecret(channel.run, { prefix })
    expect(await areNew(keys.secret, keys.fingerprint)).toBe(true)
    expect(await scanWithoutTtl(server)).toEqual([])
  })

  test('a start renews the keys of an earlier one', async () => {
    await agreeOnSecret(channel.run, { prefix })
    await server.pipeline([keys.secret, keys.fingerprint].map((key) => ['EXPIRE', key, '50']))
    await agreeOnSecret(channel.run, { prefix })
    expect(await areNew(keys.secret, keys.fingerprint)).toBe(true)
  })

  test('the last known secret of a node is restored if Redis has lost it', async () => {
    expect(await agreeOnSecret(channel.run, { prefix, lastKnown: one })).toEqual(one)
    await server.call('DEL', keys.secret)
    expect(await agreeOnSecret(channel.run, { prefix, lastKnown: one })).toEqual(one)
    expect(await agreeOnSecret(channel.run, { prefix })).toEqual(one)
  })

  test('the last known secret of a node yields to the stored one', async () => {
    await agreeOnSecret(channel.run, { prefix, lastKnown: one })
    expect(await agreeOnSecret(channel.run, { prefix, lastKnown: two })).toEqual(one)
    await server.call('DEL', keys.secret)
    const other = agreeOnSecret(channel.run, { prefix, lastKnown: two })
    await expect(other).rejects.toMatchObject({ code: 'KEY_SECRET_DIFFERS' })
  })

  test('a configured secret is not written to Redis, only its fingerprint', async () => {
    expect(await agreeOnSecret(channel.run, { prefix, configured: one })).toBe(one)
    expect(await server.call('GET', keys.secret)).toBeNull()
    expect(await server.call('GET', keys.fingerprint)).toBe(fingerprintOf(one))
    expect(await agreeOnSecret(channel.run, { prefix, configured: Uint8Array.from(one) })).toEqual(
      one,
    )
  })

  test('the stored secret may be configured as it is in Redis', async () => {
    const kept = await agreeOnSecret(channel.run, { prefix })
    const text = String(await server.call('GET', keys.secret))
    const given = new Uint8Array(Buffer.from(text, 'hex'))
    expect(await agreeOnSecret(channel.run, { prefix, configured: given })).toEqual(kept)
  })

  test('a node with another secret gets an error that explains what to do', async () => {
    await agreeOnSecret(channel.run, { prefix, configured: one })
    await expect(agreeOnSecret(channel.run, { prefix, configured: two })).rejects.toMatchObject({
      code: 'KEY_SECRET_DIFFERS',
      message:
        `Prefix sluice: the key secret of this node has the fingerprint ${fingerprintOf(two)}, ` +
        `that of the counters in Redis has ${fingerprintOf(one)}; such nodes would use separate counters. ` +
        'Give all nodes the same SLUICE_KEY_SECRET, or this one its own prefix. ' +
        'To rotate the secret stop all nodes and delete sluice:{home}:secret-fingerprint and ' +
        'sluice:{home}:secret, and redis-key-secret in the data directory of each node: ' +
        'all counters then start empty.',
    })
    expect(await server.call('GET', keys.fingerprint)).toBe(fingerprintOf(one))
  })

  test('a node without a configured secret does not start beside configured ones, and writes none', async () => {
    await agreeOnSecret(channel.run, { prefix, configured: one })
    await expect(agreeOnSecret(channel.run, { prefix })).rejects.toMatchObject({
      code: 'KEY_SECRET_DIFFERS',
      message: expect.stringContaining('was given no key secret and Redis keeps none') as string,
    })
    expect(await server.call('GET', keys.secret)).toBeNull()
  })

  test('a configured node does not start beside nodes with a stored secret', async () => {
    await agreeOnSecret(channel.run, { prefix })
    const agreed = agreeOnSecret(channel.run, { prefix, configured: one })
    await expect(agreed).rejects.toMatchObject({ code: 'KEY_SECRET_DIFFERS' })
  })

  test('a node with another secret may use another prefix', async () => {
    await agreeOnSecret(channel.run, { prefix, configured: one })
    expect(await agreeOnSecret(channel.run, { prefix: 'other', configured: two })).toBe(two)
  })

  test('deleting the keys that the message names rotates the secret', async () => {
    await agreeOnSecret(channel.run, { prefix, configured: one })
    await server.call('DEL', keys.fingerprint, keys.secret)
    expect(await agreeOnSecret(channel.run, { prefix, configured: two })).toBe(two)
  })

  test('a key that Sluice did not write is not used as a secret, nor shown', async () => {
    await server.call('SET', keys.secret, 'hunter2')
    await expect(agreeOnSecret(channel.run, { prefix })).rejects.toMatchObject({
      code: 'STORE_UNFIT',
      message:
        'sluice:{home}:secret in Redis must be 32 hex digits, and has 7 characters of something ' +
        'else. Use a Redis or a prefix of its own for Sluice, or delete the key.',
    })
  })

  test('a store that forgets at once is not retried for ever', async () => {
    const ask: RunCommand = async (words) => (words[0] === 'GET' ? null : Buffer.from('OK'))
    await expect(agreeOnSecret(ask, { prefix })).rejects.toMatchObject({ code: 'STORE_FAILED' })
  })
})

describe('renewing a secret', () => {
  test('restores flushed keys', async () => {
    const secret = await agreeOnSecret(channel.run, { prefix })
    await server.call('FLUSHALL')
    await renewSecret(channel.run, { prefix, secret, isConfigured: false })
    expect(await agreeOnSecret(channel.run, { prefix })).toEqual(secret)
    expect(await areNew(keys.secret, keys.fingerprint)).toBe(true)
  })

  test('by several nodes restores one and the same secret', async () => {
    const secret = await agreeOnSecret(channel.run, { prefix })
    await server.call('FLUSHALL')
    const held = { prefix, secret, isConfigured: false }
    const renewals = Array.from({ length: 10 }, () => renewSecret(channel.run, held))
    await Promise.all([...renewals, agreeOnSecret(channel.run, { prefix, configured: secret })])
    expect(await agreeOnSecret(channel.run, { prefix })).toEqual(secret)
  })

  test('finds one that replaced it, and leaves it there', async () => {
    const secret = await agreeOnSecret(channel.run, { prefix })
    await server.call('FLUSHALL')
    const other = await agreeOnSecret(channel.run, { prefix })
    const renewed = renewSecret(channel.run, { prefix, secret, isConfigured: false })
    await expect(renewed).rejects.toMatchObject({ code: 'KEY_SECRET_DIFFERS' })
    expect(await agreeOnSecret(channel.run, { prefix })).toEqual(other)
  })
})

describe('the keeper of a secret', () => {
  function makeKeeper(secret: Uint8Array, ask = channel.run) {
    const scheduler = new FakeScheduler()
    const problems: string[] = []
    const onProblem = (text: string) => void problems.push(text)
    const keeper = new SecretKeeper({
      run: ask,
      scheduler,
      prefix,
      secret,
      isConfigured: true,
      onProblem,
    })
    return { scheduler, problems, keeper }
  }

  const untilRenewed = async () => {
    while (!(await areNew(keys.fingerprint))) await settled()
  }

  test('renews once a day', async () => {
    await agreeOnSecret(channel.run, { prefix, configured: one })
    await server.call('EXPIRE', keys.fingerprint, '50')
    const { scheduler, keeper } = makeKeeper(one)
    keeper.start()
    await scheduler.advance(DAY_MS - 1)
    expect(await server.call('TTL', keys.fingerprint)).toBeLessThanOrEqual(50)
    await scheduler.advance(1)
    await untilRenewed()
    keeper.stop()
    expect(scheduler.waiting).toBe(0)
  })

  test('restores it as soon as it is missing', async () => {
    const { keeper, problems } = makeKeeper(one)
    keeper.onFingerprint(undefined)
    keeper.onFingerprint(undefined)
    await untilRenewed()
    expect(await server.call('GET', keys.fingerprint)).toBe(fingerprintOf(one))
    expect(problems).toEqual([])
  })

  test('reports another secret once, and once that it is gone', () => {
    const { keeper, problems } = makeKeeper(one)
    for (const seen of [one, two, two, one, one]) keeper.onFingerprint(fingerprintOf(seen))
    expect(problems).toEqual([
      expect.stringContaining(`has ${fingerprintOf(two)}; such nodes would use separate counters`),
      'Prefix sluice: the key secret of this node and of Redis agree again',
    ])
  })

  test('reports another secret that it finds while it restores its own', async () => {
    await agreeOnSecret(channel.run, { prefix, configured: two })
    const { keeper, problems } = makeKeeper(one)
    keeper.onFingerprint(undefined)
    while (problems.length === 0) await settled()
    expect(problems).toEqual([expect.stringContaining(fingerprintOf(two))])
  })

  test('ignores a store that does not answer, and retries', async () => {
    let asked = 0
    const { keeper, problems } = makeKeeper(new Uint8Array(randomBytes(16)), () => {
      asked += 1
      return Promise.reject(new RedisConnectionError('gone'))
    })
    for (const times of [1, 2]) {
      keeper.onFingerprint(undefined)
      await settled()
      expect(asked).toBe(times)
    }
    expect(problems).toEqual([])
  })
})

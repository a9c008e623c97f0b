/** Nodes that start and run while Redis is flushed: they never count with two secrets. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../../../../tools/redis/server.mjs'
import { waitFor } from '../../../../../tools/redis/wait-for.js'
import { channelText, storeKeys } from '../protocol/redis-keys.js'
import { type RedisStore, type RedisStoreOptions, redisStore } from '../index.js'
import { fingerprintOf } from './hash-secret.js'

const keys = storeKeys('sluice')
const opened: RedisStore[] = []
let server: RedisServer

function open(
  options: Pick<RedisStoreOptions, 'denyCacheMs' | 'lastSecret' | 'observer'> = {},
): RedisStore {
  const store = redisStore({ url: server.url, deadlineMs: 10_000, ...options })
  opened.push(store)
  return store
}

const secretOf = async (store: RedisStore) => Buffer.from(await store.remote.secret).toString('hex')

beforeEach(async () => {
  server = await startRedis()
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map((store) => store.close()))
  await server.stop()
})

const subscribers = async () => {
  const reply = await server.call('PUBSUB', 'NUMSUB', channelText('sluice'))
  return Array.isArray(reply) ? Number(reply[1]) : 0
}

describe('a node that starts on a Redis that was just flushed', () => {
  test('takes the secret of running nodes, every time', async () => {
    const first = open()
    await first.ready
    await waitFor('a subscription', async () => (await subscribers()) === 1)
    const secret = await secretOf(first)
    for (let round = 0; round < 10; round++) {
      await server.call('FLUSHALL')
      const late = open({ denyCacheMs: 0 })
      await late.ready
      expect(await secretOf(late)).toBe(secret)
      await late.close()
    }
    expect(first.stats().state).toBe('ready')
  })

  test('takes the secret of running nodes although it kept another one', async () => {
    const first = open()
    await first.ready
    await waitFor('a subscription', async () => (await subscribers()) === 1)
    await server.call('FLUSHALL')
    const late = open({ lastSecret: new Uint8Array(16).fill(2) })
    expect(await secretOf(late)).toBe(await secretOf(first))
    expect(first.stats().state).toBe('ready')
  })

  test('takes the secret of running nodes if all of them reconnect to a Redis that lost it', async () => {
    const first = open()
    await first.ready
    const secret = await secretOf(first)
    for (let round = 0; round < 5; round++) {
      await server.kill()
      let problems = 0
      const problem = () => {
        problems += 1
      }
      const late = open({ observer: { problem } })
      await waitFor('a failed try', async () => problems > 0)
      await server.start()
      expect(await secretOf(late)).toBe(secret)
      await late.close()
    }
    await waitFor('the first', async () => first.stats().state === 'ready')
  })

  test('waits for running nodes even if it may not announce anything', async () => {
    await server.call('ACL', 'SETUSER', 'default', '-publish', '-subscribe')
    const first = open()
    await first.ready
    await server.call('FLUSHALL')
    const late = open()
    expect(await secretOf(late)).toBe(await secretOf(first))
  })
})

test('a node that finds another secret stops counting until its own is back', async () => {
  const store = open()
  await store.ready
  const secret = await secretOf(store)
  const other = '2'.repeat(32)
  const set = (text: string) => {
    const fingerprint = fingerprintOf(Buffer.from(text, 'hex'))
    return server.pipeline([
      ['SET', keys.secret, text, 'EX', '600'],
      ['SET', keys.fingerprint, fingerprint, 'EX', '600'],
    ])
  }
  await set(other)
  await waitFor('the stop', async () => store.stats().state === 'refused')
  const key = { hi: 1, lo: 2, partition: 0 }
  await expect(store.reset(key)).rejects.toMatchObject({ code: 'STORE_FAILED' })
  await set(secret)
  await waitFor('the end', async () => store.stats().state === 'ready')
  await store.reset(key)
})

/** A Redis that refuses this node: how that is reported, and that a fix needs no restart. */
import { createLimiter } from '../../index.js'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../../../../tools/redis/server.mjs'
import { waitFor } from '../../../../../tools/redis/wait-for.js'
import { STORE_ACL } from './store-acl.js'
import { type RedisStore, redisStore } from '../index.js'

const PASSWORD = 'a-password-for-tests'
const call = { attributes: { user: 'ann' } }
const rules = [{ id: 'all', by: ['user'], limits: ['10/hour'], posture: 'closed' }]

let server: RedisServer
let store: RedisStore
let problems: string[]

const openStore = (url: string) => {
  problems = []
  store = redisStore({
    url,
    deadlineMs: 10_000,
    observer: { problem: (text) => void problems.push(text) },
  })
  return store
}
const urlOf = (user: string) => `redis://${user}@${server.address}`
const setUser = (...words: readonly string[]) =>
  server.call('ACL', 'SETUSER', 'limiter', 'reset', 'on', `>${PASSWORD}`, ...words)

beforeEach(async () => {
  server = await startRedis()
})
afterEach(async () => {
  await store?.close()
  await server.stop()
})

describe('a wrong password', () => {
  test('rejects ready, is reported without the password, and can be fixed without a restart', async () => {
    await setUser('resetpass', '>another-one', ...STORE_ACL.split(' '))
    const limiter = createLimiter({ rules, store: openStore(urlOf(`limiter:${PASSWORD}`)) })
    await expect(limiter.ready()).rejects.toMatchObject({ code: 'STORE_REFUSED' })
    await expect(store.ready).rejects.toThrow(/WRONGPASS/)
    expect(store.stats().state).toBe('refused')
    expect(problems.join()).toMatch(/^Redis refuses this node: .*WRONGPASS/)
    expect(problems.join()).not.toContain(PASSWORD)
    // At once, and not after the deadline of 10 s, for which this test would have no time.
    expect(await limiter.check(call)).toMatchObject({ allowed: false, source: 'posture' })
    await setUser(...STORE_ACL.split(' '))
    await waitFor('the cure', async () => (await limiter.check(call)).source === 'store')
    expect(store.stats().state).toBe('ready')
    expect(problems.at(-1)).toBe('Redis accepts this node again')
    await limiter.close()
  })

  test('of a running node is reported for its connection until that is made again', async () => {
    await setUser(...STORE_ACL.split(' '))
    openStore(urlOf(`limiter:${PASSWORD}`))
    await store.ready
    const refusal = () => store.stats().nodes[0]?.refusal
    expect(refusal()).toBeUndefined()
    await setUser('resetpass', '>another-one', ...STORE_ACL.split(' '))
    await server.call('CLIENT', 'KILL', 'USER', 'limiter')
    await waitFor('the refusal', async () => refusal()?.startsWith('WRONGPASS') === true)
    expect(refusal()).not.toContain(PASSWORD)
    await setUser(...STORE_ACL.split(' '))
    await waitFor('the cure', async () => store.stats().nodes[0]?.isAnswering === true)
    expect(refusal()).toBeUndefined()
  })

  test('has the same effect if the URL has none and Redis requires one', async () => {
    await server.call('ACL', 'SETUSER', 'default', 'resetpass', `>${PASSWORD}`)
    openStore(`redis://${server.address}`)
    await expect(store.ready).rejects.toThrow(/NOAUTH/)
    const bare = await startRedis()
    await server.stop()
    server = bare
  })
})

describe('a missing right', () => {
  test.each(['time', 'zadd'])(
    'to %s rejects ready, and can be fixed',
    async (name) => {
      await setUser(...STORE_ACL.split(' '), `-${name}`)
      openStore(urlOf(`limiter:${PASSWORD}`))
      await expect(store.ready).rejects.toMatchObject({
        code: 'STORE_REFUSED',
        message: expect.stringContaining(`the user may not run ${name}; accepted:`),
      })
      expect(problems.filter((text) => text.includes('may not run'))).toHaveLength(1)
      await setUser(...STORE_ACL.split(' '))
      await waitFor('the cure', async () => store.stats().state === 'ready')
    },
    60_000,
  )

  test('stops the heartbeats of a running node, and is reported', async () => {
    await setUser(...STORE_ACL.split(' '))
    openStore(urlOf(`limiter:${PASSWORD}`))
    await store.ready
    await server.call('ACL', 'SETUSER', 'limiter', '-zadd')
    const isReported = () => problems.some((text) => text.includes('refuses the heartbeats'))
    await waitFor('a report', async () => isReported())
    await server.call('ACL', 'SETUSER', 'limiter', '+zadd')
    await waitFor(
      'the end',
      async () => problems.at(-1)?.includes('accepts the heartbeats') === true,
    )
    expect(problems.filter((text) => text.includes('heartbeats'))).toHaveLength(2)
  })

  test('to publish and subscribe is reported once, and everything else works', async () => {
    await setUser(...STORE_ACL.split(' '), '-publish', '-subscribe', 'resetchannels')
    const limiter = createLimiter({ rules, store: openStore(urlOf(`limiter:${PASSWORD}`)) })
    await limiter.ready()
    await limiter.check(call)
    for (let i = 0; i < 3; i++) await limiter.refund(call)
    expect(await limiter.check(call)).toMatchObject({ allowed: true, source: 'store' })
    const isSaid = (text: string) => text.includes('announce refunds and resets')
    await waitFor('a report', async () => problems.some(isSaid))
    await limiter.close()
    expect(problems.filter(isSaid)).toHaveLength(1)
  })
})

test('a replica at the start rejects ready, and is used once it is the primary', async () => {
  const primary = await startRedis()
  try {
    await server.call('REPLICAOF', primary.host, String(primary.port))
    const limiter = createLimiter({ rules, store: openStore(server.url) })
    await expect(limiter.ready()).rejects.toMatchObject({
      code: 'STORE_REFUSED',
      message: expect.stringContaining('found a replica, which cannot be written to'),
    })
    expect(await limiter.check(call)).toMatchObject({ allowed: false, source: 'posture' })
    await server.call('REPLICAOF', 'NO', 'ONE')
    await waitFor('the promotion', async () => (await limiter.check(call)).source === 'store')
    await limiter.close()
  } finally {
    await primary.stop()
  }
})

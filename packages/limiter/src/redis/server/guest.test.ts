/** A node of another region on a real Redis, with no more rights than a guest needs. */
import { defineLimit } from '@sluice/core'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { startCluster } from '../../../../../tools/redis/cluster.js'
import { type RedisServer, startRedis } from '../../../../../tools/redis/server.mjs'
import { GUEST_ACL, guestAcl, type RedisStore, redisStore, storeAcl } from '../index.js'

const SECRET = new Uint8Array(16).fill(1)
const LIMIT = defineLimit({ algorithm: 'sliding-window-counter', max: 100, windowMs: 3_600_000 })
const KEY = { hi: 1, lo: 2, partition: 3 }

let server: RedisServer
const stores: RedisStore[] = []

function open(user: string, options: Partial<Parameters<typeof redisStore>[0]> = {}): RedisStore {
  const url = `redis://${user}:password@${server.host}:${server.port}`
  const store = redisStore({ url, secret: SECRET, deadlineMs: 2000, ...options })
  stores.push(store)
  store.ready.catch(() => {})
  return store
}

const used = async (store: RedisStore) => {
  const [[outcome] = []] = await store.peek([[{ key: KEY, limit: LIMIT, amount: 0 }]])
  return 100 - (outcome?.remaining ?? 0)
}

beforeAll(async () => {
  server = await startRedis()
  await server.call('ACL', 'SETUSER', 'own', 'on', '>password', ...storeAcl('sluice').split(' '))
  await server.call('ACL', 'SETUSER', 'guest', 'on', '>password', ...GUEST_ACL.split(' '))
})
afterAll(async () => {
  for (const store of stores) await store.close()
  await server.stop()
})

describe('a guest', () => {
  test('waits until a node of the region itself has started', async () => {
    const early = open('guest', { guest: true })
    await expect(early.ready).rejects.toMatchObject({
      code: 'STORE_REFUSED',
      message: expect.stringContaining('no node of that region has started on it yet'),
    })
    const own = open('own')
    await own.ready
    // It is tried again.
    await early.remote.secret
    await early.charge({ key: KEY, limit: LIMIT, amount: 5, at: Date.now() * 1000, debt: 0 })
    expect(await used(own)).toBe(5)
  })

  test('charges, gives back, resets and reads, with evalsha and without eval', async () => {
    const [own, guest] = [open('own'), open('guest', { guest: true })]
    await own.ready
    await guest.remote.secret
    await guest.reset(KEY)
    const at = Date.now() * 1000
    await guest.charge({ key: KEY, limit: LIMIT, amount: 9, at, debt: 0 })
    await guest.give({ key: KEY, limit: LIMIT, amount: 2, at })
    expect([await used(own), await used(guest)]).toEqual([7, 7])
    await guest.reset(KEY)
    expect(await used(own)).toBe(0)
    expect(GUEST_ACL).not.toMatch(/\+eval( |$)|\+script|\+publish|\+info|\+config|\+keys|\+scan/)
    const log = String(await server.call('ACL', 'LOG'))
    expect(log).not.toContain('guest')
  })

  test('can run every script again once a node of the region has missed one', async () => {
    const problems: string[] = []
    const [own, guest] = [
      open('own'),
      open('guest', { guest: true, observer: { problem: (text) => problems.push(text) } }),
    ]
    await own.ready
    await guest.remote.secret
    await guest.reset(KEY)
    await server.call('SCRIPT', 'FLUSH')
    const at = Date.now() * 1000
    const charge = () => guest.charge({ key: KEY, limit: LIMIT, amount: 3, at, debt: 0 })
    await expect(charge()).rejects.toMatchObject({ silence: 'not-run' })
    expect(problems.join()).toContain('lacks a script of this version')
    // One take alone has a script of its own.
    await own.take([[{ key: KEY, limit: LIMIT, amount: 1 }]], { deadlineMs: 60_000 })
    await vi.waitFor(charge, { timeout: 60_000, interval: 50 })
    expect(await used(own)).toBe(4)
  })

  test('is no node of the fleet there, and writes no secret', async () => {
    const [own, guest] = [open('own'), open('guest', { guest: true })]
    await own.ready
    await guest.remote.secret
    const before = own.remote.fleetSize()
    const another = open('guest', { guest: true })
    await another.remote.secret
    expect(own.remote.fleetSize()).toBe(before)
    expect(guest.remote.fleetSize()).toBe(1)
    expect(await server.call('GET', 'sluice:{home}:secret')).toBeNull()
  })

  test('with another secret is refused by its fingerprint, also once it has started', async () => {
    const own = open('own')
    await own.ready
    const guest = open('guest', { guest: true, secret: new Uint8Array(16).fill(2) })
    await expect(guest.ready).rejects.toMatchObject({
      code: 'STORE_REFUSED',
      message: expect.stringContaining('give all regions the same SLUICE_KEY_SECRET'),
    })
    const charge = { key: KEY, limit: LIMIT, amount: 9, at: Date.now() * 1000, debt: 0 }
    await expect(guest.charge(charge)).rejects.toMatchObject({ silence: 'not-run' })
    const good = open('guest', { guest: true })
    await good.ready
    await good.heartbeatExchange.write('eu', '{}')
    expect(await own.heartbeatExchange.read(['eu', 'us'])).toEqual(['{}', undefined])
    await server.call('SET', 'sluice:{home}:secret-fingerprint', '0123456789abcdef')
    await expect(good.heartbeatExchange.write('eu', '{}')).rejects.toMatchObject({
      code: 'STORE_REFUSED',
    })
  })

  test('needs a secret, which it must not take from Redis', () => {
    expect(() => open('guest', { guest: true, secret: undefined })).toThrow(
      'secret: found none beside guest; accepted: 16 bytes',
    )
  })

  test('has no rights on the keys of another prefix', () => {
    expect(guestAcl('shop')).toContain('~shop:*')
    expect(guestAcl('shop')).not.toContain('sluice')
  })
})

test('a guest on a Cluster reaches the counters of every primary', async () => {
  const cluster = await startCluster({ primaries: 3, replicas: 0 })
  const openStore = (guest: boolean) => {
    const store = redisStore({ url: cluster.url, secret: SECRET, guest, deadlineMs: 2000 })
    store.ready.catch(() => {})
    return store
  }
  const own = openStore(false)
  await own.ready
  const guest = openStore(true)
  try {
    await guest.ready
    const keys = Array.from({ length: 32 }, (_, i) => ({ hi: i, lo: i, partition: 4 * i }))
    const at = Date.now() * 1000
    await Promise.all(
      keys.map((key) => guest.charge({ key, limit: LIMIT, amount: 3, at, debt: 0 })),
    )
    const takes = keys.map((key) => [{ key, limit: LIMIT, amount: 0 }])
    const outcomes = await own.peek(takes)
    expect(new Set(outcomes.flat().map(({ remaining }) => remaining))).toEqual(new Set([97]))
  } finally {
    await Promise.all([own.close(), guest.close()])
    await cluster.stop()
  }
})

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { type RedisCluster, startCluster } from '../../../../../tools/redis/cluster.js'
import { type RedisServer, scanWithoutTtl, startRedis } from '../../../../../tools/redis/server.mjs'
import { STORE_ACL } from './store-acl.js'
import type { RunCommand } from '../connection/run-command.js'
import { RedisNodeExchange } from './node-exchange.js'
import { type RedisStore, redisStore } from '../index.js'

const PREFIX = 'sluice'

describe('a board', () => {
  function boardOf(ask: RunCommand | undefined, nowMs = () => 0) {
    return new RedisNodeExchange({ prefix: PREFIX, node: () => 'n1', run: () => ask, nowMs })
  }

  test('rejects posts and reads before the store has started', async () => {
    const board = boardOf(undefined)
    await expect(board.post('text')).rejects.toThrow('The store has not started')
    await expect(board.read()).rejects.toThrow('The store has not started')
    await board.close()
  })

  test('stores a text with a TTL, in the slot of all other keys', async () => {
    const commands: (readonly unknown[])[] = []
    const board = boardOf(async (words) => {
      commands.push(words)
      return null
    })
    await board.post('text')
    await board.close()
    expect(commands).toEqual([
      ['SET', 'sluice:{home}:board:n1', 'text', 'PX', 15_000],
      ['DEL', 'sluice:{home}:board:n1'],
    ])
  })

  test('refuses a post while another is in flight', async () => {
    let answer: (reply: null) => void = () => {}
    let commands = 0
    const board = boardOf(() => {
      commands++
      return new Promise((resolve) => (answer = resolve))
    })
    const first = board.post('first')
    await expect(board.post('second')).rejects.toThrow('still on its way')
    answer(null)
    await first
    const third = board.post('third')
    answer(null)
    await third
    expect(commands).toBe(2)
  })

  test('refuses a text that is too long', async () => {
    const board = boardOf(async () => null)
    await expect(board.post('x'.repeat(1024 * 1024 + 1))).rejects.toThrow(
      'a text for the board: found 1048577 characters; accepted: at most 1048576',
    )
  })

  test('refuses posts after it was closed, and removes nothing if it was never used', async () => {
    let commands = 0
    const board = boardOf(async () => {
      commands++
      return null
    })
    await board.close()
    await expect(board.post('late')).rejects.toThrow('closed')
    expect(commands).toBe(0)
  })

  test('reads a large fleet a few nodes at a time, and gives up after a timeout', async () => {
    const nodes = Array.from({ length: 9 }, (_, i) => Buffer.from(`node${i}`))
    const sizes: number[] = []
    let nowMs = 0
    const ask: RunCommand = async ([name, ...words]) => {
      if (name === 'ZRANGEBYSCORE') return nodes
      sizes.push(words.length)
      nowMs += 100
      return words.map((word) => {
        const key = String(word)
        return key.endsWith('3') ? null : Buffer.from(`of ${key}`)
      })
    }
    const texts = await boardOf(ask, () => nowMs).read()
    expect(sizes).toEqual([4, 4, 1])
    expect(texts).toHaveLength(8)
    expect(texts[3]).toBe('of sluice:{home}:board:node4')
    const slow: RunCommand = (words) => {
      nowMs += 1001
      return ask(words)
    }
    await expect(boardOf(slow, () => nowMs).read()).rejects.toThrow(
      'The board of 9 nodes was not read within 2000 ms',
    )
  })
})

describe('a board on a real Redis', () => {
  const user = { name: 'limiter', password: 'a-password-for-tests' }
  let server: RedisServer
  const stores: RedisStore[] = []

  beforeAll(async () => {
    server = await startRedis()
    const words = ['on', `>${user.password}`, ...STORE_ACL.split(' ')]
    await server.call('ACL', 'SETUSER', user.name, 'reset', ...words)
  })
  afterAll(() => server?.stop())
  beforeEach(() => server.call('FLUSHALL'))
  afterEach(async () => {
    if (server.isPaused) server.resume()
    await Promise.all(stores.splice(0).map((store) => store.close()))
  })

  async function open(): Promise<RedisStore> {
    const url = `redis://${user.name}:${user.password}@${server.address}`
    const store = redisStore({ url, prefix: PREFIX })
    stores.push(store)
    await store.ready
    return store
  }

  const sorted = async ({ exchange: board }: RedisStore) => [...(await board.read())].toSorted()

  /** A node joins the fleet with its first heartbeat, which is sent when it is ready. */
  async function fleetOf(size: number): Promise<readonly RedisStore[]> {
    const opened = await Promise.all(Array.from({ length: size }, open))
    for (const store of opened) {
      while (store.stats().fleet.size < size) await new Promise(setImmediate)
    }
    return opened
  }

  test('shows every node the texts of all nodes, with the least rights', async () => {
    const [one, two, three] = await fleetOf(3)
    if (one === undefined || two === undefined || three === undefined) throw new Error('no stores')
    await one.exchange.post('old')
    await one.exchange.post('of one')
    await two.exchange.post('of two, ünïcode')
    // A node that missed heartbeats rejoins with its next one.
    for (const reader of [three, one]) {
      await vi.waitFor(
        async () => expect(await sorted(reader)).toEqual(['of one', 'of two, ünïcode']),
        { timeout: 10_000 },
      )
    }
    expect(await scanWithoutTtl(server)).toEqual([])
    await two.close()
    expect(await sorted(one)).toEqual(['of one'])
    expect(await server.call('KEYS', '*board*')).toHaveLength(1)
  })

  test('rejects within its timeout if Redis does not answer', async () => {
    const [store] = await fleetOf(1)
    server.pause()
    await expect(store?.exchange.post('text')).rejects.toThrow('did not answer SET within 1000 ms')
    await expect(store?.exchange.read()).rejects.toThrow(
      'did not answer ZRANGEBYSCORE within 1000 ms',
    )
  })
})

describe('a board on a Cluster', () => {
  let cluster: RedisCluster

  beforeAll(async () => {
    cluster = await startCluster({ primaries: 3, replicas: 0 })
  })
  afterAll(() => cluster?.stop())

  test('has one place for all nodes, wherever the home slot lies', async () => {
    const stores = [redisStore({ url: cluster.url }), redisStore({ url: cluster.url })]
    try {
      await Promise.all(stores.map(({ ready }) => ready))
      await Promise.all(stores.map(({ exchange: board }, i) => board.post(`of ${i}`)))
      for (const store of stores) {
        while (store.stats().fleet.size < 2) await new Promise(setImmediate)
        expect([...(await store.exchange.read())].toSorted()).toEqual(['of 0', 'of 1'])
      }
    } finally {
      await Promise.all(stores.map((store) => store.close()))
    }
  })
})

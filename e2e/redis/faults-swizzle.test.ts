/**
 * Connections fail one by one and come back in another order, again and again: the fault that finds
 * most bugs. And many nodes that lost the same Redis come back.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type RedisStore, redisStore } from '@sluice/limiter/redis'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type FaultProxy, startFaultProxy } from '../../tools/redis/fault-proxy.js'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'
import { waitFor } from '../../tools/redis/wait-for.js'
import { TimerCanary } from './fault-canary.test-helper.js'
import { NODES } from './fault-nodes.test-helper.js'
import { runFault, TEST_MS_MAX, TIMES } from './fault-run.test-helper.js'
import { startSwitchableProxy } from './switchable-proxy.test-helper.js'

vi.setConfig({ testTimeout: TEST_MS_MAX })

let server: RedisServer
beforeEach(async () => {
  server = await startRedis()
})
afterEach(() => server.stop())

/** Numbers from 0 to 1 that are the same for the same seed. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

function shuffled<Item>(items: readonly Item[], random: () => number): readonly Item[] {
  return items
    .map((item) => ({ item, rank: random() }))
    .toSorted((a, b) => a.rank - b.rank)
    .map(({ item }) => item)
}

const FAULTS: readonly ((proxy: FaultProxy) => void)[] = [
  (proxy) => proxy.hold(),
  (proxy) => proxy.hold('to-client'),
  (proxy) => proxy.blackhole(),
  (proxy) => proxy.blackhole('to-server'),
  (proxy) => proxy.cut(),
  (proxy) => proxy.delay(30, 30),
]

async function swizzle(proxies: readonly FaultProxy[], random: () => number): Promise<void> {
  const some = shuffled(proxies, random).slice(0, 1 + Math.floor(random() * proxies.length))
  for (const proxy of some) {
    FAULTS[Math.floor(random() * FAULTS.length)]?.(proxy)
    await sleep(random() * 150)
  }
  await sleep(random() * 400)
  for (const proxy of shuffled(some, random)) {
    await proxy.heal()
    await sleep(random() * 150)
  }
}

test('connections may stop one by one and continue in another order', async () => {
  const firstSeed = Number(process.env['SLUICE_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
  const seeds = Array.from({ length: 10 * TIMES }, (_, i) => firstSeed + i)
  const proxies = await Promise.all(
    Array.from({ length: NODES }, () => startFaultProxy(server.port)),
  )
  try {
    await runFault({
      name: `swizzle, seeds ${firstSeed} to ${firstSeed + seeds.length - 1} (SLUICE_SEED)`,
      urls: proxies.map(({ url }) => url),
      readUrl: server.url,
      servers: async () => [server],
      // A dead connection is detected by its silence alone, which takes a while.
      recoveryMs: 3000,
      fault: async () => {
        for (const seed of seeds) await swizzle(proxies, randomOf(seed))
      },
    })
  } finally {
    await Promise.all(proxies.map((proxy) => proxy.stop()))
  }
})

const FLEET = 50
/** One for decisions, and one for announcements. */
const CONNECTIONS_PER_NODE = 2
const WINDOW_MS = 100

/** Nodes whose reconnect was due while this process stalled come right after it. */
const STALL_MS_MAX = 50

/** The most within 100 ms, as a share of the fleet, except those that a stall drove together. */
function crowdOf(acceptedMs: readonly number[], timers: TimerCanary): number {
  const own = acceptedMs.filter(
    (atMs) => timers.longestIn(atMs - WINDOW_MS, atMs + 1) <= STALL_MS_MAX,
  )
  const most = own.map(
    (fromMs) => own.filter((atMs) => atMs >= fromMs && atMs < fromMs + WINDOW_MS).length,
  )
  return Math.max(0, ...most) / (FLEET * CONNECTIONS_PER_NODE)
}

test('fifty nodes that lost Redis together do not reconnect all together', async () => {
  const way = await startSwitchableProxy(server.port)
  const timers = new TimerCanary()
  const stores: RedisStore[] = []
  const areBack = () =>
    waitFor('All of them', async () =>
      stores.every((store) => store.stats().nodes[0]?.isAnswering === true),
    )
  try {
    for (let i = 0; i < FLEET; i++) stores.push(redisStore({ url: way.url }))
    await Promise.all(stores.map((store) => store.ready))
    const cutMs = performance.now()
    way.switchTo(server.port)
    await sleep(1500)
    await areBack()
    const afterCut = way.acceptedMs.filter((atMs) => atMs > cutMs)
    await server.kill()
    await sleep(1500)
    const restartMs = performance.now()
    await server.start()
    await sleep(1500)
    await areBack()
    const afterRestart = way.acceptedMs.filter((atMs) => atMs > restartMs)
    const crowds = [afterCut, afterRestart].map((times) => crowdOf(times, timers))
    process.stdout.write(
      `reconnects of ${FLEET} nodes: within 100 ms after a reset at most ${100 * (crowds[0] ?? 1)} %, ` +
        `after a restart at most ${100 * (crowds[1] ?? 1)} %\n`,
    )
    expect(afterCut.length).toBeGreaterThanOrEqual(FLEET * CONNECTIONS_PER_NODE)
    for (const crowd of crowds) expect(crowd).toBeLessThan(1)
  } finally {
    timers.stop()
    await Promise.all(stores.map((store) => store.close()))
    await way.stop()
  }
})

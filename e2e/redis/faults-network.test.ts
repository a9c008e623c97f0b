/** The network between nodes and Redis fails: slowly, silently, halfway, or with garbage. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type FaultProxy, startFaultProxy } from '../../tools/redis/fault-proxy.js'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'
import { waitFor } from '../../tools/redis/wait-for.js'
import { type FaultOptions, runFault, TEST_MS_MAX, TIMES } from './fault-run.test-helper.js'
import { startSwitchableProxy } from './switchable-proxy.test-helper.js'

vi.setConfig({ testTimeout: TEST_MS_MAX })

let server: RedisServer
let proxy: FaultProxy

beforeEach(async () => {
  server = await startRedis()
  proxy = await startFaultProxy(server.port)
})
afterEach(async () => {
  await proxy.stop()
  await server.stop()
})

const run = (
  options: Omit<FaultOptions, 'servers' | 'urls'> & { readonly urls?: readonly string[] },
) =>
  runFault({
    urls: [proxy.url],
    readUrl: server.url,
    servers: async () => [server],
    ...options,
  })

/** How many scripts Redis has run. */
async function scripts(): Promise<number> {
  const { cmdstat_evalsha: stats = '' } = await server.info('commandstats')
  return Number(/calls=(\d+)/.exec(stats)?.[1] ?? 0)
}

describe('connections', () => {
  test('reset ten times a second settle each call once, and count none twice', async () => {
    await run({
      name: 'reset every 100 ms',
      fault: async ({ last }) => {
        const interval = setInterval(() => proxy.cut(), 100)
        await last(3000)
        clearInterval(interval)
      },
    })
  })

  test('reset between request and reply leave calls unknown, and never resend them', async () => {
    const figures = await run({
      name: 'reset before the reply',
      fault: async () => {
        for (let i = 0; i < 12 * TIMES; i++) {
          // Room for the handshake of a new connection, and then for part of a reply.
          proxy.limitData(20 * i)
          await sleep(200)
          await proxy.heal()
          await sleep(50)
        }
      },
    })
    expect(figures.unknown).toBeGreaterThan(0)
  })

  test('dead without notice are closed by the limiter, not by the kernel', async () => {
    const way = await startSwitchableProxy(server.port)
    try {
      await run({
        name: 'half-open',
        urls: [way.url],
        fault: async () => way.freeze(),
        recoveryMs: 3000,
      })
    } finally {
      await way.stop()
    }
  })

  test('into a black hole are exact again when it ends', async () => {
    await run({
      name: 'black hole',
      fault: async ({ last }) => {
        proxy.blackhole()
        await last(4000)
        await proxy.heal()
      },
    })
  })

  test('held up do not take units for requests that arrive late', async () => {
    await run({
      name: 'held up',
      fault: async ({ last }) => {
        proxy.hold()
        await last(1500)
        await proxy.heal()
      },
    })
  })

  test('without replies take at most as many units as are unknown', async () => {
    await run({
      name: 'replies lost',
      fault: async ({ last }) => {
        proxy.blackhole('to-client')
        await last(1500)
        await proxy.heal()
      },
    })
  })

  test('with one byte at a time are read correctly', async () => {
    await run({
      name: 'slow bytes',
      fault: async ({ last }) => {
        proxy.slow(1, 5)
        await last(2000)
        await proxy.heal()
      },
    })
  })

  test('with garbage are dropped', async () => {
    await run({
      name: 'garbage',
      fault: async ({ last }) => {
        proxy.garbage()
        await last(2000)
        await proxy.heal()
      },
    })
  })

  test('refused for a while are opened again', async () => {
    await run({
      name: 'refused',
      fault: async ({ last }) => {
        proxy.refuse()
        proxy.cut()
        await last(1500)
        await proxy.heal()
      },
    })
  })
})

describe('latency', () => {
  test('of 200 ms opens the breaker, so that hardly any call reaches the store until it ends', async () => {
    let asked = 0
    let reached = 0
    let beats = 0
    const figures = await run({
      name: 'latency 200 ms',
      well: [server],
      fault: async ({ log, last, nodes }) => {
        proxy.delay(100, 50)
        await waitFor('Open breakers', async () =>
          nodes.stores.every((store) => store.stats().nodes[0]?.isBreakerOpen),
        )
        // Requests that were in flight by then have arrived.
        await sleep(300)
        const [decisions, before] = [log.length, await scripts()]
        const fromMs = performance.now()
        await last(3000)
        asked = log.length - decisions
        reached = (await scripts()) - before
        // Apart from probes, nodes send two heartbeats a second.
        beats = 3 * (2 * Math.ceil((performance.now() - fromMs) / 1000) + 1)
        await proxy.heal()
      },
    })
    process.stdout.write(`  of ${asked} calls ${reached - beats} scripts reached the store\n`)
    expect(reached - beats).toBeLessThanOrEqual(asked / 100)
    // Before and after the fault the machine may open it, during the fault it opens once.
    const { faultFromMs, faultUntilMs, isNoisy, nodes } = figures
    const opened = nodes.events.breakers.filter(({ isOpen }) => isOpen)
    for (const [number] of nodes.stores.entries()) {
      const own = opened.filter(({ node }) => node === number)
      const within = own.filter(({ atMs }) => atMs >= faultFromMs && atMs < faultUntilMs)
      expect(within.length, 'the breaker does not flap').toBeLessThanOrEqual(1)
      const others = own.filter((event) => !within.includes(event) && !isNoisy(event.atMs))
      expect(others, 'the breaker stays closed').toEqual([])
    }
  })

  test('of more than half the deadline stays exact', async () => {
    const figures = await run({
      // Plus a millisecond or two each way in the proxy itself.
      name: 'latency 10 ms',
      degrades: false,
      well: [server],
      fault: async ({ last }) => {
        proxy.delay(5)
        await last(3000)
        await proxy.heal()
      },
    })
    const opened = figures.nodes.events.breakers.filter(({ atMs }) => !figures.isNoisy(atMs))
    expect(opened).toEqual([])
  })
})

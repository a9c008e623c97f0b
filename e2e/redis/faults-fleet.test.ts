/** Several Redis servers: a primary fails, is replaced, is demoted, or gives its slots away. */
import { afterEach, describe, expect, test, vi } from 'vitest'
import { setTimeout as sleep } from 'node:timers/promises'
import { PARTITION_SLOTS } from '../../packages/limiter/src/redis/request/partitions.js'
import { startCluster } from '../../tools/redis/cluster.js'
import { startSentinel } from '../../tools/redis/sentinel.js'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'
import { type ShiftedRedis, startShiftedRedis } from '../../tools/redis/shifted.js'
import { waitFor } from '../../tools/redis/wait-for.js'
import { runFault, TEST_MS_MAX } from './fault-run.test-helper.js'
import { KINDS } from './fault-nodes.test-helper.js'
import { startSwitchableProxy } from './switchable-proxy.test-helper.js'

/** Every move of a slot is written to the disk of each primary, which may be slow. */
const MOVE_MS_MAX = 600_000

vi.setConfig({ testTimeout: TEST_MS_MAX })

const started: { stop(): Promise<void> }[] = []
async function keep<Kind extends { stop(): Promise<void> }>(
  starting: Promise<Kind>,
): Promise<Kind> {
  const kept = await starting
  started.push(kept)
  return kept
}
afterEach(async () => {
  for (const each of started.splice(0).toReversed()) await each.stop()
})

describe('Sentinel', () => {
  test('names another primary after the first was killed', async () => {
    const set = await keep(startSentinel({ replicas: 1 }))
    let outageMs = 0
    await runFault({
      name: 'Sentinel, primary killed',
      urls: [set.url],
      servers: async () => [await set.primary()],
      losses: 1,
      recoveryMs: 5000,
      fault: async ({ losing }) => {
        const fromMs = performance.now()
        await losing(async () => {
          const old = await set.killPrimary()
          await set.waitForNewPrimary(old)
        })
        outageMs = performance.now() - fromMs
      },
    })
    process.stdout.write(`  the sentinels took ${Math.round(outageMs)} ms\n`)
  })
})

/** A primary and its replica, whose clock can be set. */
async function startPair(): Promise<readonly [RedisServer, ShiftedRedis]> {
  const config = ['--repl-diskless-sync-delay', '0']
  const first = await keep(startRedis({ config }))
  const second = await keep(
    startShiftedRedis({ config: [...config, '--replicaof', first.host, String(first.port)] }),
  )
  await waitFor('a replica', async () => {
    return (await second.info('replication'))['master_link_status'] === 'up'
  })
  return [first, second]
}

describe('a primary and its replica', () => {
  test('refuses and loses no write if the primary is demoted with connections open', async () => {
    const [first, second] = await startPair()
    const way = await keep(startSwitchableProxy(first.port))
    await runFault({
      name: 'demoted, then another primary',
      urls: [way.url],
      readUrl: second.url,
      servers: async () => [second],
      recoveryMs: 3000,
      losses: 1,
      fault: async ({ losing }) => {
        await losing(async () => {
          await second.call('REPLICAOF', 'NO', 'ONE')
          await first.call('REPLICAOF', second.host, String(second.port))
        })
        await sleep(1500)
        way.switchTo(second.port)
      },
    })
  })

  test.each([30_000, -30_000])(
    'loses only what a lagging replica with a clock %i ms off had not received',
    async (offsetMs) => {
      const [first, second] = await startPair()
      second.shiftClock(offsetMs)
      const way = await keep(startSwitchableProxy(first.port))
      await runFault({
        name: `failover with a lag of 1 s and a clock ${offsetMs} ms off`,
        urls: [way.url],
        readUrl: second.url,
        servers: async () => [second],
        losses: 1,
        fault: ({ losing }) =>
          losing(async () => {
            second.pause()
            await sleep(1000)
            await first.kill()
            second.resume()
            await second.call('REPLICAOF', 'NO', 'ONE')
            way.switchTo(second.port)
          }),
      })
    },
  )
})

describe('a Cluster', () => {
  test('decides only the slots of a killed primary by posture', async () => {
    // Otherwise a Cluster refuses everything while some of its slots are not served.
    const config = ['--cluster-require-full-coverage', 'no']
    const cluster = await keep(startCluster({ primaries: 3, replicas: 3, config }))
    const slot = PARTITION_SLOTS[5] ?? 0
    const old = await cluster.primaryOf(slot)
    const owners = await Promise.all(PARTITION_SLOTS.map((each) => cluster.primaryOf(each)))
    let outageMs = 0
    const figures = await runFault({
      name: 'Cluster, primary killed',
      urls: [cluster.url],
      well: (await cluster.primaries()).filter((node) => node !== old),
      servers: () => cluster.primaries(),
      losses: 1,
      recoveryMs: 5000,
      fault: async ({ losing }) => {
        const fromMs = performance.now()
        await losing(async () => {
          await cluster.killPrimary(slot)
          await cluster.waitForNewPrimary(slot, old)
        })
        outageMs = performance.now() - fromMs
      },
    })
    const { faultFromMs, faultUntilMs, log, isNoisy } = figures
    const seen = { there: 0, thereSilent: 0, elsewhere: 0, elsewhereSilent: 0, unexcused: 0 }
    for (const { askedMs, answeredMs, kind, partition, source } of log.rows()) {
      // Calls with counters of several partitions involve several nodes.
      if (partition === -1 || KINDS[kind]?.name === 'mixed') continue
      if (askedMs < faultFromMs || askedMs > faultUntilMs) continue
      const isSilent = source === 'posture'
      const isThere = owners[partition] === old
      seen[isThere ? 'there' : 'elsewhere'] += 1
      if (isSilent) seen[isThere ? 'thereSilent' : 'elsewhereSilent'] += 1
      if (isSilent && !isThere && !isNoisy(answeredMs)) seen.unexcused += 1
    }
    const { there, thereSilent, elsewhere, elsewhereSilent, unexcused } = seen
    process.stdout.write(
      `  failover took ${Math.round(outageMs)} ms; by posture ${thereSilent} of ${there} of its ` +
        `slots, ${elsewhereSilent} of ${elsewhere} of others (${unexcused} not by noise)\n`,
    )
    expect(thereSilent).toBeGreaterThan(0)
    // A hiccup that no canary noticed costs a batch or two.
    expect(unexcused).toBeLessThanOrEqual(elsewhere / 100)
  })

  test(
    'loses and doubles nothing while 1,000 slots move',
    async () => {
      const cluster = await keep(startCluster({ primaries: 3, replicas: 0 }))
      const [from, to] = await cluster.primaries()
      if (from === undefined || to === undefined) throw new Error('No primaries')
      let moved = 0
      const figures = await runFault({
        name: 'Cluster, 1,000 slots moved',
        urls: [cluster.url],
        well: await cluster.primaries(),
        servers: () => cluster.primaries(),
        degrades: false,
        fault: async () => {
          moved = (await cluster.moveSlots(1000, from, to)).length
        },
      })
      expect(moved).toBe(1000)
      process.stdout.write(`  in ${Math.round(figures.faultUntilMs - figures.faultFromMs)} ms\n`)
      expect(figures.nodes.events.errors.get('MOVED')).toBeGreaterThan(0)
    },
    MOVE_MS_MAX,
  )

  test('receives one script per counter while slots are half moved', async () => {
    const cluster = await keep(startCluster({ primaries: 3, replicas: 0 }))
    const [from, to] = await cluster.primaries()
    if (from === undefined || to === undefined) throw new Error('No primaries')
    const owners = await Promise.all(PARTITION_SLOTS.map((slot) => cluster.primaryOf(slot)))
    const slots = PARTITION_SLOTS.filter((_, partition) => owners[partition] === from).slice(0, 12)
    const { nodes } = await runFault({
      name: 'Cluster, 12 slots half moved',
      urls: [cluster.url],
      well: await cluster.primaries(),
      servers: () => cluster.primaries(),
      degrades: false,
      fault: async ({ last }) => {
        const moves = await Promise.all(slots.map((slot) => cluster.startSlotMove(slot, to)))
        await Promise.all(moves.map((move) => move.moveKeys(4)))
        await last(1500)
        for (const move of moves) await move.finish()
      },
    })
    expect(nodes.events.errors.get('ASK')).toBeGreaterThan(0)
  })
})

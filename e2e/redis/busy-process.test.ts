/** A process that is too busy to read in time, and whose Redis goes away and comes back. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type FaultProxy, startFaultProxy } from '../../tools/redis/fault-proxy.js'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'

const FIXTURE = fileURLToPath(new URL('./busy-process.fixture.mjs', import.meta.url))
const MEBIBYTE = 2 ** 20

interface Report {
  readonly sources: Readonly<Record<string, number>>
  readonly heapUsed: number
  readonly isBreakerOpen: boolean
}

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

/** Runs the busy node for the time of a test; `until` reads its reports up to one that matches. */
async function withBusyNode(
  run: (until: (passes: (report: Report) => boolean) => Promise<Report>) => Promise<void>,
): Promise<void> {
  const rules = [{ id: 'per-user', by: ['user'], limits: ['1000000/second'] }]
  const task = JSON.stringify({ url: proxy.url, rules })
  const child = spawn(process.execPath, ['--expose-gc', FIXTURE, task], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'close')
  try {
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    await run(async (passes) => {
      for (;;) {
        const { value, done } = await lines.next()
        if (done === true) throw new Error('the busy node ended')
        const report = JSON.parse(value) as Report
        if (passes(report)) return report
      }
    })
  } finally {
    child.kill('SIGKILL')
    await ended
  }
}

const isByStore = ({ sources }: Report) => (sources['store'] ?? 0) > 0
const isByPosture = ({ sources }: Report) => !('store' in sources) && sources['posture'] !== 0

test('a busy process replaces a dead connection by itself', async () => {
  await withBusyNode(async (until) => {
    await until(isByStore)
    // The open connections lead nowhere from now on; new ones work.
    proxy.forget()
    await until(isByPosture)
    await until(isByStore)
  })
})

test('a busy process with a stopped Redis opens its breaker, keeps its memory bounded, and recovers', async () => {
  await withBusyNode(async (until) => {
    await until(isByStore)
    const before = await until(isByStore)
    proxy.hold()
    await until(({ isBreakerOpen }) => isBreakerOpen)
    let reports = 0
    const after = await until(() => ++reports === 12)
    // It used to grow by 126 MB in 13 s, because every answered call stayed in the queue.
    expect((after.heapUsed - before.heapUsed) / MEBIBYTE).toBeLessThan(20)
    await proxy.heal()
    await until(isByStore)
  })
})

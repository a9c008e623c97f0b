/** What a node does between its start and its first call, on a distant Redis. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type FaultProxy, startFaultProxy } from '../../tools/redis/fault-proxy.js'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'
import { makeFolder, type Program, stopAll, waitFor } from '../process.test-helper.js'
import { waitForExit, run } from '../serve.test-helper.js'

/** Each way: one round of warm-up takes longer than all of it may. */
const DELAY_MS = 150

let redis: RedisServer
let proxy: FaultProxy
beforeAll(async () => {
  redis = await startRedis()
  proxy = await startFaultProxy(redis.port)
  proxy.delay(DELAY_MS)
})
afterEach(async () => {
  await stopAll()
  await redis.cli('CONFIG', 'RESETSTAT')
})
afterAll(async () => {
  await proxy.stop()
  await redis.stop()
})

/** A node whose warm-up has begun. */
async function startWarmingUp(env: Record<string, string> = {}): Promise<Program> {
  const folder = makeFolder()
  writeFileSync(join(folder, 'rules.yaml'), 'rules: []')
  const redisEnv = { SLUICE_RULES: 'rules.yaml', SLUICE_REDIS_URL: proxy.url }
  const program = run(['serve', '--json'], { ...redisEnv, ...env }, folder)
  await waitFor(program, async () =>
    /cmdstat_evalsha:calls=(?:[3-9]|\d\d)/.test(await redis.cli('INFO', 'commandstats')),
  )
  return program
}

test('a node that receives a signal during warm-up ends at once', async () => {
  const program = await startWarmingUp()
  program.signal('SIGTERM')
  const { code, output } = await waitForExit(program)
  expect(code).toBe(0)
  // If the machine was so busy that the signal came late, the node was serving already.
  if (!output.includes('"listening"'))
    expect(output).toContain('received signal during startup, exiting')
})

test('a node is ready after a second of warm-up, even if it could continue', async () => {
  const program = await startWarmingUp()
  await waitFor(program, () => program.output().includes('"listening"'))
})

test('two workers that receive a signal during warm-up end', async () => {
  const program = await startWarmingUp({ SLUICE_WORKERS: '2' })
  program.signal('SIGTERM')
  expect((await waitForExit(program)).code).toBe(0)
})

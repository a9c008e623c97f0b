/** Nodes on one Redis, for tests of the whole program. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { type RedisServer, startRedis } from '../tools/redis/server.mjs'
import { makeFolder, stopAll } from './process.test-helper.js'
import { type RunningServer, start } from './serve.test-helper.js'

/**
 * One Redis for all tests of a file, empty and running for each; the nodes of a test stop with it.
 */
export function shareRedis(): () => RedisServer {
  let redis: RedisServer
  beforeAll(async () => {
    redis = await startRedis()
  })
  afterAll(() => redis.stop())
  afterEach(async () => {
    await stopAll()
    if (!redis.isRunning) await redis.start()
    // A test that failed may have left it paused.
    if (redis.isPaused) redis.resume()
    await redis.cli('FLUSHALL')
  })
  return () => redis
}

export function startNode(rules: string, env: Record<string, string>): Promise<RunningServer> {
  const folder = makeFolder()
  writeFileSync(join(folder, 'rules.yaml'), rules)
  return start({ SLUICE_RULES: 'rules.yaml', ...env }, folder)
}

/** Redis is killed while nobody calls: no breaker opens, and yet somebody must know. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'
import { stopAll } from '../process.test-helper.js'
import { Receiver } from './receiver.test-helper.js'
import { startWatched } from './watched.test-helper.js'

let redis: RedisServer
const receiver = new Receiver()

beforeAll(async () => {
  redis = await startRedis()
})
afterEach(stopAll)
afterAll(async () => {
  await receiver.close()
  await redis.stop()
})

test('a Redis that is killed is told of without a single call, and over when it is back', {
  timeout: 90_000,
}, async () => {
  await startWatched({
    url: await receiver.open(),
    config: { redis: { url: redis.url } },
    rules: [{ id: 'per-user', by: ['user'], limits: ['10/second'] }],
  })
  await redis.kill()
  const begun = await receiver.hear('breaker-open', 'firing')
  expect(begun).toMatchObject({ subject: redis.address, severity: 'page' })
  expect(begun.summary).toContain('cannot be reached')
  await redis.restart()
  await receiver.hear('breaker-open', 'resolved')
  receiver.expectToldOnce('breaker-open')
})

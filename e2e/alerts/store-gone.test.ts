/** Redis is killed while there is no traffic: no breaker opens, but an alert must fire. */
import { expect, test } from 'vitest'
import { shareRedis } from '../serve-redis.test-helper.js'
import { useReceiver } from './alert-receiver.test-helper.js'
import { startAlertingServer } from './alerting-server.test-helper.js'

const redis = shareRedis()
const receiver = useReceiver()

test('a killed Redis raises an alert without a single call, and the alert resolves when Redis is back', {
  timeout: 240_000,
}, async () => {
  const { client } = await startAlertingServer({
    url: await receiver.open(),
    config: { redis: { url: redis().url } },
    rules: [{ id: 'per-user', by: ['user'], limits: ['10/second'] }],
  })
  expect(await client.stats()).toMatchObject({ nodes: 1, isWhole: true })
  await redis().kill()
  const begun = await receiver.waitForState('breaker-open', 'firing')
  expect(begun).toMatchObject({ subject: redis().address, severity: 'page' })
  expect(begun.summary).toContain('cannot be reached')
  // The snapshots of other nodes are on that Redis, so the answer must not claim to cover all
  // nodes.
  expect(await client.stats()).toMatchObject({ nodes: 1, isWhole: false })
  expect((await client.top()).isWhole).toBe(false)
  await redis().restart()
  const over = await receiver.waitForState('breaker-open', 'resolved')
  expect(over.summary).toContain('could not be reached')
  await expect.poll(async () => (await client.stats()).isWhole, { timeout: 20_000 }).toBe(true)
  receiver.expectFiredOnce('breaker-open')
})

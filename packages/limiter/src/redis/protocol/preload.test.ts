import { afterAll, beforeAll, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../../../../tools/redis/server.mjs'
import { openChannel, type TestChannel } from '../connection/channel.test-helper.js'
import { runOnChannel } from '../connection/run-command.js'
import { PRELOAD } from './preload.js'
import { SCRIPTS } from './batch-scripts.js'

let server: RedisServer
let channel: TestChannel
beforeAll(async () => {
  server = await startRedis()
  channel = await openChannel(server.port)
})
afterAll(async () => {
  channel.close()
  await server.stop()
})

test('preloading makes Redis know all scripts and writes nothing', async () => {
  for (const command of PRELOAD) {
    const reply = await runOnChannel(channel, command.words(), 10_000)
    expect(Buffer.isBuffer(reply)).toBe(true)
  }
  const hashes = SCRIPTS.map(
    ({ byHash }) => /[0-9a-f]{40}/.exec(Buffer.from(byHash).toString())?.[0],
  )
  const known = await runOnChannel(
    channel,
    ['SCRIPT', 'EXISTS', ...hashes.map((hash) => hash ?? '')],
    10_000,
  )
  expect(known).toEqual(hashes.map(() => 1))
  expect(Number(await server.cli('DBSIZE'))).toBe(0)
})

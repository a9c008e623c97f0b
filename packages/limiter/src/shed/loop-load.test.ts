import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { loopLoad } from './loop-load.js'

test('the load of an event loop is its mean delay by the one aimed at', async () => {
  const loop = loopLoad()
  loop.load({ loopMs: 50 })
  const until = performance.now() + 400
  await sleep(20)
  while (performance.now() < until);
  await sleep(20)
  const load = loop.load({ loopMs: 50 })
  expect(loop.delayMs).toBeGreaterThan(20)
  expect(load).toBeCloseTo(loop.delayMs / 50, 6)
  loop.close()
})

/** A refusal caused by units that another call of this node then gives back is not remembered. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type RedisCluster, startCluster } from '../../../../../tools/redis/cluster.js'
import { createLimiter } from '../../index.js'
import { redisStore } from '../index.js'

const window = (id: string, by: string) => ({
  id,
  by: [by],
  limits: [{ algorithm: 'fixed-window', max: 1, window: '366d', name: 'all' }],
})

let cluster: RedisCluster
beforeAll(async () => {
  cluster = await startCluster({ primaries: 3, replicas: 0 })
})
afterAll(() => cluster.stop())

/** 5 ms apart, so fewer than while a refusal is remembered. */
const TRIES_MAX = 150

test('a refusal caused by units that are then given back is remembered by no node', async () => {
  const store = redisStore({ url: cluster.url, deadlineMs: 10_000 })
  const limiter = createLimiter({
    rules: [window('users', 'user'), window('teams', 'team')],
    store,
  })
  await limiter.ready()
  const call = (attributes: Record<string, string>) => limiter.check({ attributes })
  const passed: Promise<boolean>[] = []
  for (let i = 0; i < 40; i++) {
    const user = `u${i}`
    const team = `t${i}`
    await call({ team })
    // Takes the only unit of the user, is refused by the team, and gives it back.
    const [refused, held] = await Promise.all([call({ user, team }), call({ user })])
    expect(refused.allowed).toBe(false)
    if (!held.allowed) passed.push(passesSoon(() => call({ user })))
  }
  expect(await Promise.all(passed)).not.toContain(false)
  await limiter.close()
})

/** Much earlier than a remembered refusal would allow; a stall of the machine does not count. */
async function passesSoon(again: () => Promise<{ readonly allowed: boolean }>): Promise<boolean> {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    if ((await again()).allowed) return true
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  return false
}

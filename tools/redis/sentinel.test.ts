import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startSentinel, type RedisSentinelSet } from './sentinel.js'

describe('a Sentinel test set', () => {
  let set: RedisSentinelSet
  beforeAll(async () => {
    set = await startSentinel({ replicas: 2 })
  })
  afterAll(async () => {
    await set.stop()
    expect([...set.nodes, ...set.sentinels].every((server) => !server.isRunning)).toBe(true)
  })

  test('names its first node as the primary', async () => {
    expect(await set.primary()).toBe(set.nodes[0])
    expect(set.url).toBe(
      `redis+sentinel://${set.sentinels.map(({ address }) => address).join(',')}/sluice`,
    )
  })

  test('replaces a killed primary with a replica that has its keys', async () => {
    const primary = await set.primary()
    const [, copies] = await primary.pipeline([
      ['SET', 'kept', 'yes'],
      ['WAIT', '2', '5000'],
    ])
    expect(copies).toBe(2)
    const killed = await set.killPrimary()
    expect(killed).toBe(primary)
    const next = await set.waitForNewPrimary(killed)
    expect(await next.cli('GET', 'kept')).toBe('yes')
    await killed.start()
    expect(await set.primary()).toBe(next)
  })

  test('replaces a live primary on request', async () => {
    const old = await set.primary()
    const next = await set.failOver()
    expect(next).not.toBe(old)
    expect(await set.primary()).toBe(next)
  })
})

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RedisSentinelSet, startSentinel } from '../../../../../tools/redis/sentinel.js'
import { waitFor } from '../../../../../tools/redis/wait-for.js'
import { REDIS_CLIENTS } from '../redis-options.js'
import { ask, open, PATIENT, readyChannel, textOf } from './drivers.test-helper.js'

describe.each(REDIS_CLIENTS)('a primary behind sentinels by %s', (client) => {
  let set: RedisSentinelSet

  beforeAll(async () => {
    set = await startSentinel()
  })

  afterAll(async () => {
    await set?.stop()
  })

  test('receives commands', async () => {
    const { driver, readies, problems } = await open(set.url, client, PATIENT)
    expect(driver.topology).toBe('sentinel')
    expect(driver.channelOf(0)).toBeUndefined()
    expect(driver.channels()).toEqual([])
    const channel = await readyChannel(driver)
    const { address } = await set.primary()
    expect(channel.address).toBe(address)
    expect(driver.channelOf(16_383)).toBe(channel)
    expect(driver.channelAt(address)).toBe(channel)
    expect(driver.channelAt('127.0.0.1:1')).toBeUndefined()
    expect(driver.channels()).toEqual([channel])
    expect(textOf(await ask(channel, 'SET', 'a', '1', 'PX', '60000'))).toBe('OK')
    expect(readies).toEqual([address])
    expect(problems).toEqual([])
  })

  test('receives commands although one sentinel is gone and another hangs', async () => {
    const [first, second] = set.sentinels
    await first?.kill()
    second?.pause()
    const { driver } = await open(set.url, client)
    await readyChannel(driver)
    second?.resume()
    await first?.start()
  })

  test('causes one report if no sentinel knows its name', async () => {
    const { driver, problems } = await open(`${set.url}-other`, client)
    // A busy machine may report a slow connection first.
    const unknown = /^Sentinel .* knows no primary named sluice-other$/
    await waitFor('A problem', async () => problems.some((problem) => unknown.test(problem)))
    expect(driver.channelOf(0)).toBeUndefined()
  })

  test('changes after it is killed', async () => {
    const { driver, readies } = await open(set.url, client)
    const channel = await readyChannel(driver)
    const old = await set.killPrimary()
    await waitFor('The loss', async () => !channel.isReady)
    const next = await set.waitForNewPrimary(old)
    await waitFor(
      'The new primary',
      async () => channel.isReady && channel.address === next.address,
    )
    expect(driver.channelOf(0)).toBe(channel)
    expect(readies).toEqual([old.address, next.address])
    expect(textOf(await ask(channel, 'SET', 'a', '1', 'PX', '60000'))).toBe('OK')
    await old.start()
  })

  test('changes when another takes over while it lives, and no replica is ever ready', async () => {
    const { driver, readies } = await open(set.url, client)
    const channel = await readyChannel(driver)
    const next = await set.failOver()
    await waitFor(
      'The new primary',
      async () => channel.isReady && channel.address === next.address,
    )
    expect(textOf(await ask(channel, 'SET', 'a', '1', 'PX', '60000'))).toBe('OK')
    expect(readies.at(-1)).toBe(next.address)
  })
})

describe('a primary behind sentinels that hangs', () => {
  test('loses its role for good, also after it continues', async () => {
    const set = await startSentinel()
    try {
      const { driver, readies } = await open(set.url, 'ioredis')
      const channel = await readyChannel(driver)
      const old = await set.primary()
      old.pause()
      const next = await set.waitForNewPrimary(old)
      await waitFor('The new primary', async () => channel.address === next.address)
      old.resume()
      driver.refresh()
      await readyChannel(driver)
      await waitFor('The old one as a replica', async () => {
        expect(channel.address).toBe(next.address)
        return (await old.info('replication'))['role'] === 'slave'
      })
      expect(readies).toEqual([old.address, next.address])
    } finally {
      await set.stop()
    }
  })
})

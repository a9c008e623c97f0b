import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RedisCluster, startCluster } from '../../../../../tools/redis/cluster.js'
import { waitFor } from '../../../../../tools/redis/wait-for.js'
import { type RedisDriver, RedisReplyError } from './driver.js'
import { REDIS_CLIENTS } from '../redis-options.js'
import { PARTITION_SLOTS, PARTITION_TAGS, SLOT_COUNT } from '../request/partitions.js'
import { ask, open, PATIENT, readyChannel, textOf } from './drivers.test-helper.js'

const whole = (driver: RedisDriver) =>
  waitFor('A channel for every slot', async () =>
    Array.from({ length: SLOT_COUNT }, (_, slot) => driver.channelOf(slot)).every(
      (channel) => channel?.isReady === true,
    ),
  )

describe.each(REDIS_CLIENTS)('a Cluster by %s', (client) => {
  let cluster: RedisCluster

  beforeAll(async () => {
    cluster = await startCluster()
  })

  afterAll(async () => {
    await cluster?.stop()
  })

  test('has a channel for every slot, to its primary', async () => {
    // One node is enough to find the others, even a replica.
    const [replica] = cluster.nodes.slice(-1)
    const { driver, readies, problems } = await open(
      `redis+cluster://${replica?.address}`,
      client,
      PATIENT,
    )
    expect(driver.topology).toBe('cluster')
    expect(driver.channelOf(0)).toBeUndefined()
    await whole(driver)
    for (const slot of [0, 5460, 5461, 5462, 10_922, 10_923, 16_383]) {
      expect(driver.channelOf(slot)?.address).toBe((await cluster.primaryOf(slot)).address)
    }
    const primaries = (await cluster.primaries()).map(({ address }) => address).toSorted()
    expect(
      driver
        .channels()
        .map(({ address }) => address)
        .toSorted(),
    ).toEqual(primaries)
    // The replica is not reported as ready.
    expect(readies.toSorted()).toEqual(primaries)
    expect(driver.channelOf(-1)).toBeUndefined()
    expect(driver.channelOf(SLOT_COUNT)).toBeUndefined()
    expect(problems).toEqual([])
  })

  test('accepts a key of every partition without a redirection', async () => {
    const { driver } = await open(cluster.url, client)
    await whole(driver)
    for (const [index, tag] of PARTITION_TAGS.entries()) {
      const channel = driver.channelOf(PARTITION_SLOTS[index] ?? 0)
      if (channel === undefined) throw new Error('No channel')
      expect(textOf(await ask(channel, 'SET', `{${tag}}`, '1', 'PX', '60000'))).toBe('OK')
    }
  })

  test('returns redirections to the sender, and has a channel to their target', async () => {
    const { driver } = await open(cluster.url, client)
    await whole(driver)
    const wrong = driver.channels().find((channel) => channel !== driver.channelOf(12_739))
    if (wrong === undefined) throw new Error('No channel')
    const moved = await ask(wrong, 'GET', '123456789')
    expect(moved).toBeInstanceOf(RedisReplyError)
    const [code, slot, address = ''] = (moved as Error).message.split(' ')
    expect([code, slot]).toEqual(['MOVED', '12739'])
    expect(driver.channelAt(address)).toBe(driver.channelOf(12_739))
    expect(driver.channelAt('nobody')).toBeUndefined()
  })

  test('opens a channel to a node that has no slots yet', async () => {
    const { driver, readies } = await open(cluster.url, client)
    await whole(driver)
    const primaries = await cluster.primaries()
    const other = cluster.nodes.find((node) => !primaries.includes(node))
    const channel = driver.channelAt(other?.address ?? '')
    expect(channel?.address).toBe(other?.address)
    await waitFor('The channel', async () => channel?.isReady)
    expect(driver.channels()).not.toContain(channel)
    expect(readies).not.toContain(other?.address)
  })

  test('follows a slot that moved', async () => {
    const { driver } = await open(cluster.url, client)
    await whole(driver)
    const [from, to] = await cluster.primaries()
    if (from === undefined || to === undefined) throw new Error('No primaries')
    const [slot = 0] = await cluster.moveSlots(1, from, to)
    driver.refresh()
    await waitFor('The new owner', async () => driver.channelOf(slot)?.address === to.address)
    expect(driver.channelOf(slot)?.isReady).toBe(true)
  })

  test('follows a failover', async () => {
    const { driver, readies } = await open(cluster.url, client)
    await whole(driver)
    const old = await cluster.killPrimary(0)
    await waitFor('The loss', async () => driver.channelOf(0)?.isReady !== true)
    const next = await cluster.waitForNewPrimary(0, old)
    await waitFor('The new primary', async () => {
      const channel = driver.channelOf(0)
      return channel?.address === next.address && channel.isReady
    })
    expect(readies).toContain(next.address)
    const channel = await readyChannel(driver, 0)
    expect(textOf(await ask(channel, 'SET', '{5n3}', '1', 'PX', '60000'))).toMatch(/OK|MOVED/)
    await whole(driver)
    expect(driver.channels().map(({ address }) => address)).not.toContain(old.address)
    await old.start()
  })

  test('reconnects after all nodes were gone', async () => {
    const { driver } = await open(cluster.url, client)
    await whole(driver)
    await Promise.all(cluster.nodes.map((node) => node.kill()))
    await waitFor('The loss', async () => driver.channels().every(({ isReady }) => !isReady))
    await Promise.all(cluster.nodes.map((node) => node.start()))
    await whole(driver)
    await driver.close()
    expect(driver.channelAt('127.0.0.1:1')).toBeUndefined()
  })
})

describe('a Cluster whose primary hangs', () => {
  test('switches to the new primary once the connection is given up, and drops the old one', async () => {
    const cluster = await startCluster()
    try {
      const { driver } = await open(cluster.url, 'ioredis')
      await whole(driver)
      const channel = await readyChannel(driver, 0)
      const old = await cluster.primaryOf(0)
      old.pause()
      const lost = ask(channel, 'PING')
      channel.reconnect()
      expect(textOf(await lost)).toMatch(
        /^RedisConnectionError: .* A new connection was requested$/,
      )
      const next = await cluster.waitForNewPrimary(0, old)
      await waitFor('The new primary', async () => {
        const found = driver.channelOf(0)
        return found?.address === next.address && found.isReady
      })
      old.resume()
      await whole(driver)
      expect(driver.channels().map(({ address }) => address)).not.toContain(old.address)
      await waitFor('Its connection closed', async () => {
        driver.refresh()
        const clients = await old.cli('CLIENT', 'LIST', 'TYPE', 'NORMAL')
        return clients.trim().split('\n').length === 1
      })
    } finally {
      await cluster.stop()
    }
  })
})

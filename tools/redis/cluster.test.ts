import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startCluster, type RedisCluster } from './cluster.js'

describe('a test cluster', () => {
  let cluster: RedisCluster
  beforeAll(async () => {
    cluster = await startCluster()
  })
  afterAll(async () => {
    await cluster.stop()
    expect(cluster.nodes.every((node) => !node.isRunning)).toBe(true)
  })

  test('has a primary for every slot and a replica for every primary', async () => {
    const primaries = await Promise.all([0, 8000, 16_383].map((slot) => cluster.primaryOf(slot)))
    expect(primaries).toEqual(cluster.nodes.slice(0, 3))
    expect(await cluster.primaries()).toEqual(primaries)
    for (const primary of primaries) {
      expect((await primary.info('replication'))['connected_slaves']).toBe('1')
    }
    expect(cluster.url).toBe(`redis+cluster://${cluster.nodes.map((n) => n.address).join(',')}`)
  })

  test('answers ASK for a moved key while its slot is being moved, and MOVED afterwards', async () => {
    const slot = await cluster.slotOf('{t}')
    const from = await cluster.primaryOf(slot)
    const to = cluster.nodes.slice(0, 3).find((node) => node !== from)
    if (to === undefined) throw new Error('One primary only')
    await from.pipeline(['1', '2', '3'].map((n) => ['SET', `{t}${n}`, n, 'PX', '600000']))

    const move = await cluster.startSlotMove(slot, to)
    expect(await move.moveKeys(1)).toBe(1)
    const replies = await from.pipeline(['1', '2', '3'].map((n) => ['GET', `{t}${n}`]))
    const asks = replies.filter((reply) => reply instanceof Error)
    expect(asks.map(({ message }) => message)).toEqual([`ASK ${slot} ${to.address}`])
    await move.finish()
    await expect(from.cli('GET', '{t}1')).rejects.toThrow(`MOVED ${slot} ${to.address}`)
    expect(await to.cli('MGET', '{t}1', '{t}2', '{t}3')).toBe('1\n2\n3')
    expect(Number(await to.cli('PTTL', '{t}1'))).toBeGreaterThan(0)
    expect(await cluster.primaryOf(slot)).toBe(to)
  })

  test('moves slots with all their keys', async () => {
    const [from, to] = cluster.nodes
    if (from === undefined || to === undefined) throw new Error('No two nodes')
    await from.pipeline(Array.from({ length: 250 }, (_, n) => ['SET', `{06S}${n}`, 'x']))
    const slots = await cluster.moveSlots(3, from, to)
    expect(slots).toEqual([0, 1, 2])
    expect(await cluster.slotOf('{06S}')).toBe(0)
    expect(await to.call('CLUSTER', 'COUNTKEYSINSLOT', '0')).toBe(250)
    expect(await from.call('CLUSTER', 'COUNTKEYSINSLOT', '0')).toBe(0)
  })

  test('gives the slots of a killed primary to its replica, with their keys', async () => {
    const slot = await cluster.slotOf('kept')
    const primary = await cluster.primaryOf(slot)
    await primary.cli('SET', 'kept', 'yes')
    expect(await primary.pipeline([['WAIT', '1', '5000']])).toEqual([1])
    const killed = await cluster.killPrimary(slot)
    expect(killed).toBe(primary)
    const next = await cluster.waitForNewPrimary(slot, killed)
    expect(await next.cli('GET', 'kept')).toBe('yes')
    await killed.start()
    expect(await cluster.primaryOf(slot)).toBe(next)
  })
})

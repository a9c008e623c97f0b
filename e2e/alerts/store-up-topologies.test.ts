/** `sluice_store_up` for a Cluster that lost a primary, and for a failover by Sentinel. */
import { afterEach, expect, test, vi } from 'vitest'
import { startCluster } from '../../tools/redis/cluster.js'
import { startSentinel } from '../../tools/redis/sentinel.js'
import { makeFolder, stopAll } from '../process.test-helper.js'
import { start } from '../serve.test-helper.js'

const SOON = { timeout: 40_000, interval: 100 }

afterEach(stopAll)

/** The value by store. */
async function storesUp(admin: string): Promise<Readonly<Record<string, number>>> {
  const text = await (await fetch(`${admin}/metrics`)).text()
  const samples = text.matchAll(/^sluice_store_up\{store="([^"]*)"\} (\d)$/gm)
  return Object.fromEntries([...samples].map(([, store = '', up]) => [store, Number(up)]))
}

test('only the dead primary of a Cluster is reported down, until it is back', {
  timeout: 180_000,
}, async () => {
  const cluster = await startCluster({ primaries: 3, replicas: 0 })
  try {
    const { admin } = await start({ SLUICE_REDIS_URL: cluster.url }, makeFolder())
    const addresses = cluster.nodes.map(({ address }) => address)
    const expectUp = (up: (address: string) => number) =>
      vi.waitFor(async () => {
        const expected = addresses.map((address) => [address, up(address)])
        expect(await storesUp(admin)).toEqual(Object.fromEntries(expected))
      }, SOON)
    await expectUp(() => 1)
    const dead = await cluster.killPrimary(0)
    await expectUp((address) => (address === dead.address ? 0 : 1))
    await dead.start()
    await expectUp(() => 1)
  } finally {
    await cluster.stop()
  }
})

test('behind Sentinel the dead primary is reported down, and after the failover only the new primary is reported, as up', {
  timeout: 180_000,
}, async () => {
  const set = await startSentinel()
  try {
    const { admin } = await start({ SLUICE_REDIS_URL: set.url }, makeFolder())
    const first = await set.primary()
    await vi.waitFor(async () => {
      expect(await storesUp(admin)).toEqual({ [first.address]: 1 })
    }, SOON)
    const dead = await set.killPrimary()
    await vi.waitFor(async () => {
      expect(Object.values(await storesUp(admin))).toEqual([0])
    }, SOON)
    const next = await set.waitForNewPrimary(dead)
    await vi.waitFor(async () => {
      expect(await storesUp(admin)).toEqual({ [next.address]: 1 })
    }, SOON)
  } finally {
    await set.stop()
  }
})

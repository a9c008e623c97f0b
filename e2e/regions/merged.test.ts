/** Limits that three regions merge, on three real Redis servers. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  leftIn,
  offer,
  openAll,
  type RegionName,
  type RegionNode,
  REGIONS,
  type Regions,
  spendAll,
  startRegions,
  until,
  untilTold,
} from './regions.test-helper.js'

/** So long that no window ends during a test. */
const LONG = { algorithm: 'fixed-window', max: 1000, window: '366d' }
const RULES = {
  rules: [{ id: 'per-user', by: ['user'], limits: [LONG], mode: 'enforce', posture: 'local' }],
}

describe('three regions 40 ms apart', () => {
  let regions: Regions
  let nodes: Record<RegionName, RegionNode>

  beforeAll(async () => {
    regions = await startRegions(40)
    nodes = await openAll(regions, RULES)
  })
  afterAll(async () => {
    await regions.stop()
  })

  test('a caller that spent its limit in one region has nothing left in the others', async () => {
    expect(await spendAll(nodes.eu, 'mover')).toBe(1000)
    await untilTold(nodes.eu)
    expect(await spendAll(nodes.us, 'mover')).toBe(0)
    expect(await spendAll(nodes.ap, 'mover')).toBe(0)
  })

  test('what each region admitted is counted once in every region', async () => {
    for (const [i, name] of REGIONS.entries()) {
      for (let n = 0; n < 10 * (i + 1); n++) {
        await nodes[name].limiter.check({ attributes: { user: 'everywhere' } })
      }
    }
    for (const name of REGIONS) await untilTold(nodes[name])
    const left = await Promise.all(REGIONS.map((name) => leftIn(nodes[name], 'everywhere')))
    expect(left).toEqual([940, 940, 940])
  })

  test('a refund is known everywhere', async () => {
    const { receipt } = await nodes.eu.limiter.check(
      { attributes: { user: 'refunded' }, cost: 100 },
      { receipt: true },
    )
    await untilTold(nodes.eu)
    await nodes.us.limiter.refund(receipt ?? '')
    await untilTold(nodes.us)
    const left = await Promise.all(REGIONS.map((name) => leftIn(nodes[name], 'refunded')))
    expect(left).toEqual([1000, 1000, 1000])
  })

  test('a reset is known everywhere', async () => {
    await nodes.eu.limiter.check({ attributes: { user: 'reset' }, cost: 700 })
    await untilTold(nodes.eu)
    await nodes.ap.limiter.reset({ attributes: { user: 'reset' } })
    const left = await Promise.all(REGIONS.map((name) => leftIn(nodes[name], 'reset')))
    expect(left).toEqual([1000, 1000, 1000])
  })

  test('a reservation is settled in its region, and the others know what was used', async () => {
    const { limiter } = nodes.us
    const call = { attributes: { user: 'reserved' }, cost: 400 }
    const { reservation } = await limiter.reserve(call)
    await untilTold(nodes.us)
    expect(await leftIn(nodes.eu, 'reserved')).toBe(600)
    await limiter.settle(reservation ?? '', 150)
    await untilTold(nodes.us)
    const left = await Promise.all(REGIONS.map((name) => leftIn(nodes[name], 'reserved')))
    expect(left).toEqual([850, 850, 850])
  })

  test('each region sees the heartbeats and the clocks of the others', async () => {
    await until('every region is seen in every other', () =>
      REGIONS.every((name) =>
        nodes[name].store
          .regionStats()
          .every(({ heartbeat, clock }) => heartbeat !== undefined && clock !== undefined),
      ),
    )
    for (const { heartbeat, clock } of nodes.eu.store.regionStats()) {
      expect(heartbeat?.nodes).toBeGreaterThan(0)
      const { offsetSeconds = 1, errorSeconds = 0 } = clock ?? {}
      expect(Math.abs(offsetSeconds)).toBeLessThanOrEqual(errorSeconds + 0.01)
    }
  })

  test('the counter of each region can be looked at from one', async () => {
    await nodes.eu.limiter.check({ attributes: { user: 'looked-at' }, cost: 10 })
    await untilTold(nodes.eu)
    const inspected = await nodes.ap.limiter.inspect('per-user', {
      attributes: { user: 'looked-at' },
    })
    expect(inspected.counters).toMatchObject([
      {
        remaining: 990,
        regions: [
          { region: 'eu', remaining: 990 },
          { region: 'us', remaining: 990 },
        ],
      },
    ])
  })
})

describe('the bound of what is admitted beyond a limit', () => {
  let regions: Regions
  beforeAll(async () => {
    regions = await startRegions(40)
  })
  afterAll(async () => {
    await regions.stop()
  })

  test('for a window is what the others offer until they know', async () => {
    const max = 300
    const limit = { algorithm: 'fixed-window', max, window: '366d' }
    const nodes = await openAll(regions, { rules: [{ id: 'w', by: ['user'], limits: [limit] }] })
    const load = { perSecond: 200, seconds: 4 }
    const lag = longestLag(Object.values(nodes))
    const runs = await Promise.all(REGIONS.map((name) => offer(nodes[name], 'window', load)))
    const lagMs = lag.stop()
    const admitted = runs.reduce((sum, each) => sum + each.admitted, 0)
    const elsewhere = 2 * load.perSecond
    expect(admitted).toBeGreaterThanOrEqual(max)
    expect(admitted - max).toBeLessThanOrEqual(2 * max)
    // Of what is on its way, and of a call that is decided meanwhile.
    expect(admitted - max).toBeLessThanOrEqual((elsewhere * (lagMs + 50)) / 1000)
    for (const name of REGIONS) await untilTold(nodes[name])
    for (const name of REGIONS) expect(await leftIn(nodes[name], 'window')).toBe(0)
  })

  test('for a bucket is its debt, which is paid back: over time the rate holds', async () => {
    const bucket = { max: 200, window: '1s' }
    const nodes = await openAll(regions, { rules: [{ id: 'b', by: ['user'], limits: [bucket] }] })
    const load = { perSecond: 150, seconds: 6 }
    const startMs = performance.now()
    const runs = await Promise.all(REGIONS.map((name) => offer(nodes[name], 'bucket', load)))
    const seconds = (performance.now() - startMs) / 1000
    for (const name of REGIONS) await untilTold(nodes[name])
    const admitted = runs.reduce((sum, each) => sum + each.admitted, 0)
    expect(admitted).toBeLessThanOrEqual(200 + 200 * seconds + 600)
    // A caller above its rate is not starved by what the others report.
    expect(admitted).toBeGreaterThanOrEqual(200 * load.seconds * 0.5)
    for (const name of REGIONS) expect(unknownOf(nodes[name])).toBe(0)
  })
})

/** The longest time that a unit was not known everywhere. */
function longestLag(nodes: readonly RegionNode[]) {
  let longestMs = 0
  const timer = setInterval(() => {
    for (const { store } of nodes) {
      for (const { lagMs } of store.regionStats()) longestMs = Math.max(longestMs, lagMs)
    }
  }, 2)
  return {
    stop() {
      clearInterval(timer)
      return longestMs
    },
  }
}

describe('a region that is cut off', () => {
  let regions: Regions
  let nodes: Record<RegionName, RegionNode>

  beforeAll(async () => {
    regions = await startRegions(10)
    nodes = await openAll(regions, RULES)
  })
  afterAll(async () => {
    await regions.stop()
  })

  test('each side admits the whole limit, and afterwards all know what both admitted', async () => {
    for (const link of regions.linksOf('us')) link.blackhole()
    expect(await spendAll(nodes.us, 'cut')).toBe(1000)
    expect(await spendAll(nodes.eu, 'cut')).toBe(1000)
    const [toUs] = nodes.eu.store.regionStats().filter(({ region }) => region === 'us')
    expect(toUs?.lagMs).toBeGreaterThan(0)
    await until('the link is known to be gone', () =>
      nodes.us.store.regionStats().every(({ isAnswering }) => !isAnswering),
    )
    await nodes.us.limiter.check({ attributes: { user: 'while-cut' }, cost: 300 })
    for (const link of regions.linksOf('us')) {
      await link.heal()
      link.delay(10)
    }
    for (const name of REGIONS) await untilTold(nodes[name])
    expect(await leftIn(nodes.eu, 'while-cut')).toBe(700)
    expect(await leftIn(nodes.ap, 'while-cut')).toBe(700)
    expect(await leftIn(nodes.us, 'cut')).toBe(0)
    for (const name of REGIONS) {
      for (const { fates } of nodes[name].store.regionStats()) expect(fates.dropped).toBe(0)
    }
  })

  test('what may have arrived is not told again', async () => {
    const { eu } = nodes
    await until('the regions reach each other again', () =>
      eu.store.regionStats().every(({ isAnswering }) => isAnswering),
    )
    const unknownBefore = unknownOf(eu)
    const toUs = regions.link('eu', 'us')
    // The charge arrives, and its answer does not.
    toUs.blackhole('to-client')
    await eu.limiter.check({ attributes: { user: 'once' }, cost: 50 })
    await until('the report is given up', () => unknownOf(eu) === unknownBefore + 50)
    await toUs.heal()
    toUs.delay(10)
    await untilTold(eu)
    expect(await leftIn(nodes.us, 'once')).toBe(950)
    expect(await leftIn(nodes.ap, 'once')).toBe(950)
  })

  test('a region whose Redis is killed decides by posture, and what it reports is relayed', async () => {
    const { us } = nodes
    await regions.redis.us.kill()
    await until('the posture decides', async () => {
      const { source } = await us.limiter.check({ attributes: { user: 'posture' } })
      return source === 'posture'
    })
    await regions.redis.us.start()
    await until('the store decides again', async () => {
      const { source } = await us.limiter.check({ attributes: { user: 'probe' } })
      return source === 'store'
    })
    await until('what the posture admitted is told', async () => {
      return (await leftIn(nodes.eu, 'posture')) < 1000
    })
  })
})

function unknownOf({ store }: RegionNode): number {
  return store.regionStats().reduce((sum, { fates }) => sum + fates.unknown, 0)
}

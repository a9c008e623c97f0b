/** Limits that three regions split, on three real Redis servers. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  openAll,
  type RegionName,
  type RegionNode,
  REGIONS,
  type Regions,
  spendAll,
  startRegions,
} from './regions.test-helper.js'

const LIMIT = { algorithm: 'fixed-window', max: 1000, window: '366d' }
const RULES = { rules: [{ id: 'split', by: ['user'], limits: [LIMIT], regions: 'split' }] }
const SHARES = { eu: '50%', us: '30%', ap: '20%' }

describe('a limit that regions split', () => {
  let regions: Regions
  let nodes: Record<RegionName, RegionNode>

  beforeAll(async () => {
    regions = await startRegions()
    nodes = await openAll(regions, RULES)
  })
  afterAll(async () => {
    await regions.stop()
  })

  const admittedIn = (user: string) =>
    Promise.all(REGIONS.map((name) => spendAll(nodes[name], user)))

  test('is never exceeded by all regions together, and is theirs to the last unit', async () => {
    expect(await admittedIn('equal')).toEqual([333, 333, 334])
  })

  test('is given by shares, which may change while calls are counted', async () => {
    for (const { limiter } of Object.values(nodes)) limiter.setRules({ ...RULES, shares: SHARES })
    expect(await admittedIn('shared')).toEqual([200, 500, 300])
    // A lost region's share is given to the others, who keep what they have used.
    const without = { eu: '60%', us: '40%', ap: '0%' }
    for (const { limiter } of Object.values(nodes)) limiter.setRules({ ...RULES, shares: without })
    expect(await admittedIn('shared')).toEqual([0, 100, 100])
    expect(await admittedIn('new')).toEqual([0, 600, 400])
  })

  test('needs no link: a region that reaches no other has its part', async () => {
    for (const link of regions.linksOf('eu')) link.blackhole()
    expect(await spendAll(nodes.eu, 'cut off')).toBe(600)
  })

  test('is refused as a rule set whose shares leave out the own region', () => {
    const shares = { eu: '50%', us: '50%' }
    expect(() => nodes.ap.limiter.setRules({ ...RULES, shares })).toThrow(
      'shares.ap: found no share. Accepted: a share for each region: ap, eu, us',
    )
    expect(() => nodes.eu.limiter.setRules({ ...RULES, shares })).not.toThrow()
  })
})

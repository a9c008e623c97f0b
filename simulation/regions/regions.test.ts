import { describe, expect, test } from 'vitest'
import { propertyRuns } from '../../tools/property-runs.js'
import { runSeed, search } from '../seed-search.js'
import { generateRegions } from './generate-regions.js'
import { REGION_MUTATIONS } from './region-mutations.js'

/** `npm run simulate -- --world regions` runs any number. */
const SEEDS = propertyRuns(500)
/** Seeds of one test, so that none reaches its timeout. */
const CHUNK = 50
/** Each mutation must be found within this many seeds. */
const SEEDS_MAX = 200

const firsts = Array.from({ length: Math.ceil(SEEDS / CHUNK) }, (_, i) => i * CHUNK)
const world = 'regions'

/** The invariants that each mutation breaks. */
const BROKEN: Record<keyof typeof REGION_MUTATIONS, string> = {
  'told-twice': 'no unit is told twice',
  'told-untimed': 'what is told carries the time of its use',
  'relayed-relay': 'no unit is told twice',
  'untold-rest': 'what one region takes is known to all in time',
  'late-round': 'what one region takes is known to all in time',
  'debtless-charge': 'regions over-admit within their bound',
}

describe('simulated regions', () => {
  test.each(firsts)('keep all invariants, from seed %i on', async (from) => {
    const found = await search({ world, from, seeds: Math.min(CHUNK, SEEDS - from) })
    const replay = `npm run simulate -- --world regions --seed ${found?.seed}`
    expect(found && { replay, ...found.run.violation }).toBeUndefined()
  })

  test.each([0, 3, 44])('give the same run each time for seed %i', async (seed) => {
    const { run } = await runSeed(seed, undefined, { world })
    expect((await runSeed(seed, undefined, { world })).run).toEqual(run)
    expect(run.decisions).toBeGreaterThan(10)
  })

  test('meet every fault, way of counting and number of regions', () => {
    const scenarios = Array.from({ length: 300 }, (_, seed) => generateRegions(seed))
    const rules = scenarios.flatMap((each) => each.rules)
    const limits = rules.flatMap((rule) => rule.limits)
    const faults = scenarios.flatMap((each) => each.faults)
    expect(new Set(scenarios.map(({ settings }) => settings.regions.length)).size).toBe(3)
    expect(new Set(rules.map(({ coordination }) => coordination)).size).toBe(3)
    expect(new Set(rules.map(({ regions }) => regions)).size).toBe(2)
    expect(new Set(limits.map(({ algorithm }) => algorithm)).size).toBe(4)
    expect(new Set(faults.map(({ kind }) => kind)).size).toBe(8)
    expect(scenarios.filter((each) => each.faults.length === 0).length).toBeGreaterThan(50)
  })
})

describe('a mistake between regions', () => {
  const names = Object.keys(REGION_MUTATIONS) as (keyof typeof REGION_MUTATIONS)[]

  test.each(names)('%s is found, and the unchanged engine passes', async (mutation) => {
    const only = BROKEN[mutation]
    const found = await search({ world, from: 0, seeds: SEEDS_MAX, mutation, only })
    expect(found?.run.violation?.invariant).toBe(only)
    const { run } = await runSeed(found?.seed ?? -1, undefined, { world })
    expect(run.violation).toBeUndefined()
  })

  test('is found by the bound on what is admitted alone if it tells too late', async () => {
    const only = 'regions over-admit within their bound'
    const found = await search({ world, from: 0, seeds: SEEDS_MAX, mutation: 'late-round', only })
    expect(found?.run.violation?.invariant).toBe(only)
  })

  test('is found by the refusals alone if it tells too much', async () => {
    const only = 'no region refuses for units that nobody spent'
    const mutation = 'relayed-relay'
    const found = await search({ world, from: 0, seeds: SEEDS_MAX, mutation, only })
    expect(found?.run.violation?.invariant).toBe(only)
  })
})

import { describe, expect, test } from 'vitest'
import { MUTATIONS, type MutationName } from './mutations.js'
import { runSeed, search, shrinkSeedRun } from './seed-search.js'

/** Each mutation must be found within this many seeds. */
const SEEDS_MAX = 1000

/** Where the search begins for what only few seeds find, so that the test stays short. */
const FIRST_SEED: Partial<Record<MutationName, number>> = {
  'remembered-block': 270,
  'restored-place': 300,
}

const NAMES = Object.keys(MUTATIONS) as MutationName[]

/** The invariants that each mutation breaks. */
const BROKEN: Record<MutationName, string> = {
  'lost-give-back': 'what is charged is what was admitted',
  'late-lease': 'a lease is not spent after its end',
  'sleeping-lease': 'a lease is not spent after its end',
  'lost-put-back': 'what is charged is what was admitted',
  'unforgotten-lease': 'a lease is not spent after its end',
  'greedy-lease': 'leases hold no more than their share',
  'doubled-give-back': 'no unit is spent twice',
  'late-report': 'what one node spends is known to all in time',
  'half-report': 'local counts over-admit within their bound',
  'wrong-window': 'what is charged to a window was spent in it',
  'idle-block': 'callers are blocked as long as they should be',
  'growthless-block': 'callers are blocked as long as they should be',
  'remembered-block': 'callers are blocked as long as they should be',
  'kept-place': 'every place is free again after its call',
  'expired-place': 'no more calls are in flight than there are places',
  'restored-place': 'every place is free again after its call',
  'missing-mark': 'a reservation ends once',
  'doubled-mark': 'a reservation ends once',
  'forgotten-extension': 'an expired reservation is given back if its rule says so',
  'next-window': 'a reservation is charged for its use or its reserve',
}

describe('a mutation of the engine', () => {
  test.each(NAMES)('%s is found, and the unchanged engine passes', async (mutation) => {
    const from = FIRST_SEED[mutation] ?? 0
    const found = await search({ from, seeds: SEEDS_MAX, mutation, only: BROKEN[mutation] })
    expect(found?.run.violation?.invariant).toBe(BROKEN[mutation])
    const { run } = await runSeed(found?.seed ?? -1)
    expect(run.violation).toBeUndefined()
  })

  test('is found by the admissions alone if it admits too much', async () => {
    const only = 'no more is admitted than the limit and its leases'
    for (const mutation of ['late-lease', 'doubled-give-back'] as const) {
      const found = await search({ from: 0, seeds: SEEDS_MAX, mutation, only })
      expect(found?.run.violation?.invariant).toBe(only)
    }
  })

  test('is removed after the run', async () => {
    const before = await runSeed(0)
    for (const mutation of NAMES) await runSeed(0, mutation)
    expect((await runSeed(0)).run).toEqual(before.run)
  })
})

describe('a failing scenario', () => {
  test('shrinks to a smaller one that fails in the same way', async () => {
    const mutation = 'lost-give-back'
    const found = await search({ from: 0, seeds: SEEDS_MAX, mutation })
    if (found === undefined) throw new Error('nothing found to shrink')
    const shrunk = await shrinkSeedRun(found, mutation)
    expect(shrunk.run.violation?.invariant).toBe(found.run.violation?.invariant)
    expect(shrunk.scenario.parts.traffic.length).toBeLessThan(
      found.scenario.parts.traffic.length / 4,
    )
    expect(shrunk.scenario.parts.rules).toHaveLength(1)
  })
})

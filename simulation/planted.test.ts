import { describe, expect, test } from 'vitest'
import { PLANTED, type PlantedName } from './planted.js'
import { runSeed, search, shrinkFound } from './search.js'

/** Each mistake must be found within so many seeds. */
const SEEDS_MAX = 1000

const NAMES = Object.keys(PLANTED) as PlantedName[]

/** What each of them breaks. */
const BROKEN: Record<PlantedName, string> = {
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
}

describe('a mistake planted in the engine', () => {
  test.each(NAMES)('%s is found, and is none of the engine itself', async (planted) => {
    const found = await search({ from: 0, seeds: SEEDS_MAX, planted, only: BROKEN[planted] })
    expect(found?.run.violation?.invariant).toBe(BROKEN[planted])
    const { run } = await runSeed(found?.seed ?? -1)
    expect(run.violation).toBeUndefined()
  })

  test('is found by what is admitted alone, if that is too much', async () => {
    const only = 'no more is admitted than the limit and its leases'
    for (const planted of ['late-lease', 'doubled-give-back'] as const) {
      const found = await search({ from: 0, seeds: SEEDS_MAX, planted, only })
      expect(found?.run.violation?.invariant).toBe(only)
    }
  })

  test('is taken out again', async () => {
    const before = await runSeed(0)
    for (const planted of NAMES) await runSeed(0, planted)
    expect((await runSeed(0)).run).toEqual(before.run)
  })
})

describe('a failing scenario', () => {
  test('shrinks to a smaller one that fails in the same way', async () => {
    const planted = 'lost-give-back'
    const found = await search({ from: 0, seeds: SEEDS_MAX, planted })
    if (found === undefined) throw new Error('nothing found to shrink')
    const shrunk = await shrinkFound(found, planted)
    expect(shrunk.run.violation?.invariant).toBe(found.run.violation?.invariant)
    expect(shrunk.scenario.traffic.length).toBeLessThan(found.scenario.traffic.length / 4)
    expect(shrunk.scenario.rules).toHaveLength(1)
  })
})

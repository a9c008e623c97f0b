import { describe, expect, test } from 'vitest'
import { generateScenario } from './generate.js'
import { runSeed, search } from './seed-search.js'
import { propertyRuns } from '../tools/property-runs.js'

/** `npm run simulate` runs any number. */
const SEEDS = propertyRuns(500)
/** Seeds of one test, so that none reaches its timeout. */
const CHUNK = 50

/** Runs of an hour, each of which takes as long as dozens of others. */
const HOURS = 5
const HOUR_MS = 3_600_000

const firsts = Array.from({ length: Math.ceil(SEEDS / CHUNK) }, (_, i) => i * CHUNK)

describe('a simulated fleet', () => {
  test.each(firsts)('keeps all invariants, from seed %i on', async (from) => {
    const found = await search({ from, seeds: Math.min(CHUNK, SEEDS - from) })
    const replay = `npm run simulate -- --seed ${found?.seed}`
    expect(found && { replay, ...found.run.violation }).toBeUndefined()
  })

  test('may exceed its limit in every window if syncEvery is as long as the window (seed 7560)', async () => {
    expect((await runSeed(7560)).run.violation).toBeUndefined()
  })

  test('has lost no place after an hour without calls', async () => {
    const seeds = Array.from({ length: 200 }, (_, seed) => seed).filter((seed) => {
      const { rules, faults } = generateScenario(seed)
      return rules.some(({ id }) => id === 'places') && faults.length > 1
    })
    for (const seed of seeds.slice(0, HOURS)) {
      const { run } = await runSeed(seed, undefined, { restMs: HOUR_MS })
      expect(run.violation && { seed, ...run.violation }).toBeUndefined()
    }
  })
})

describe('a seed', () => {
  test.each([0, 1, 7, 11])('%i gives the same run each time, event for event', async (seed) => {
    const lines: string[][] = [[], []]
    const runs = []
    for (const log of lines) {
      const { run } = await runSeed(seed, undefined, { log: (line) => void log.push(line) })
      runs.push(run)
    }
    expect(runs[1]).toEqual(runs[0])
    expect(lines[1]).toEqual(lines[0])
    expect(lines[0]?.length).toBeGreaterThan(100)
  })

  test('gives another run than the next seed', async () => {
    const hashes = new Set<string>()
    for (let seed = 0; seed < 10; seed++) hashes.add((await runSeed(seed)).run.hash)
    expect(hashes.size).toBe(10)
  })

  test('gives plain data that can be serialized', () => {
    for (let seed = 0; seed < 50; seed++) {
      const scenario = generateScenario(seed)
      expect(JSON.parse(JSON.stringify(scenario))).toEqual(scenario)
    }
  })
})

describe('the seeds together', () => {
  const scenarios = Array.from({ length: 300 }, (_, seed) => generateScenario(seed))

  test('cover every coordination mode, algorithm and fault', () => {
    const rules = scenarios.flatMap((each) => each.rules)
    const limits = rules.flatMap((rule) => rule.limits)
    const faults = scenarios.flatMap((each) => each.faults)
    expect(new Set(rules.map(({ coordination }) => coordination)).size).toBe(4)
    expect(new Set(limits.map(({ algorithm }) => algorithm)).size).toBe(7)
    expect(new Set(faults.map(({ kind }) => kind)).size).toBe(14)
  })

  test('cover rules of different coordination and mode in one call, with tiers and candidates', () => {
    const rules = scenarios.flatMap((each) => each.rules)
    const ways = scenarios.map((each) => new Set(each.rules.map((rule) => rule.coordination)).size)
    expect(ways.filter((count) => count > 2).length).toBeGreaterThan(20)
    expect(rules.filter(({ mode }) => mode === 'shadow').length).toBeGreaterThan(50)
    expect(rules.filter(({ tiers }) => tiers !== undefined).length).toBeGreaterThan(50)
    expect(rules.filter(({ candidate }) => candidate !== undefined).length).toBeGreaterThan(50)
    expect(rules.filter(({ limits }) => limits.length > 1).length).toBeGreaterThan(50)
  })

  test('cover blocks that grow and windows that begin with a call, also in tiers and shadow', () => {
    const rules = scenarios.flatMap((each) => each.rules)
    const limits = rules.flatMap((rule) => rule.limits)
    const blocking = rules.filter((rule) => rule.limits.some(({ block }) => block !== undefined))
    const growing = limits.filter(({ block }) => block !== undefined && block.factor > 1)
    expect(growing.length).toBeGreaterThan(50)
    expect(blocking.filter(({ mode }) => mode === 'shadow').length).toBeGreaterThan(5)
    expect(blocking.filter(({ tiers }) => tiers !== undefined).length).toBeGreaterThan(5)
    expect(limits.filter(({ start }) => start === 'call').length).toBeGreaterThan(10)
  })

  test('cover calls that cost nothing, one and more, refunds, and resets', () => {
    const traffic = scenarios.flatMap((each) => each.traffic)
    const calls = traffic.flatMap((arrival) => (arrival.kind === 'call' ? arrival : []))
    expect(new Set(calls.map(({ cost }) => cost)).size).toBe(7)
    expect(calls.filter(({ refund }) => refund !== undefined).length).toBeGreaterThan(1000)
    expect(traffic.length - calls.length).toBeGreaterThan(50)
  })

  test('cover windows of a calendar in every coordination mode', () => {
    const rules = scenarios.flatMap((each) => each.rules)
    const zoned = rules.filter((rule) => rule.limits.some(({ zone }) => zone !== undefined))
    expect(new Set(zoned.map(({ coordination }) => coordination)).size).toBe(4)
    expect(zoned.length).toBeGreaterThan(15)
  })

  test('cover calls in flight that end at once and that outlast the lease of their places', () => {
    const traffic = scenarios.flatMap((each) => each.traffic)
    const lengths = traffic.flatMap((each) => ('lastsMs' in each ? (each.lastsMs ?? []) : []))
    expect(lengths.filter((ms) => ms === 0).length).toBeGreaterThan(1000)
    expect(lengths.filter((ms) => ms > 1000).length).toBeGreaterThan(1000)
  })

  test('cover rules that are raised, lowered and shared in another way while in use', () => {
    const changed = scenarios.flatMap(({ rules, faults }) =>
      faults.flatMap((fault) => {
        if (fault.kind !== 'change') return []
        return fault.rules.flatMap((after) => {
          const before = rules.find(({ id }) => id === after.id)
          return before === undefined ? [] : { before, after }
        })
      }),
    )
    const size = ({ limits }: (typeof changed)[number]['after']) => limits[0]?.max ?? 0
    expect(
      changed.filter(({ before, after }) => size(after) > size(before)).length,
    ).toBeGreaterThan(10)
    expect(
      changed.filter(({ before, after }) => size(after) < size(before)).length,
    ).toBeGreaterThan(10)
    const moved = changed.filter(({ before, after }) => before.coordination !== after.coordination)
    expect(moved.length).toBeGreaterThan(10)
  })

  test('include runs without faults, with one kind alone, and with several', () => {
    const kinds = scenarios.map(({ faults }) => new Set(faults.map(({ kind }) => kind)).size)
    expect(kinds.filter((count) => count === 0).length).toBeGreaterThan(50)
    expect(kinds.filter((count) => count === 1).length).toBeGreaterThan(100)
    expect(kinds.filter((count) => count > 1).length).toBeGreaterThan(15)
  })
})

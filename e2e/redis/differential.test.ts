/**
 * One Redis and a Cluster against the memory store: with any rules and any steps, a call is decided
 * alike on all three. `npm run test:long -- 100` plays 200 scenarios of 500 steps.
 */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import type * as CountersModule from '../../packages/limiter/src/memory/counters.js'
import { type RedisCluster, startCluster } from '../../tools/redis/cluster.js'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'
import {
  type Difference,
  loads,
  type Place,
  playScenario,
  TooSlowError,
} from './differential-run.test-helper.js'
import { makeScenario, type Scenario } from './differential-scenario.test-helper.js'
import { propertyRuns } from '../../tools/property-runs.js'

/**
 * The memory store drops a state without meaning if it needs room, and Redis when its key expires;
 * after a change of rules it may have a meaning again, and both are allowed. Here nothing is
 * dropped on either side.
 */
vi.mock('../../packages/limiter/src/memory/counters.js', async (importOriginal) => {
  const original = await importOriginal<typeof CountersModule>()
  class Unforgetting extends original.Counters {}
  if (!('makeRoom' in original.Counters.prototype)) throw new Error('makeRoom has another name')
  Object.defineProperty(Unforgetting.prototype, 'makeRoom', { value: () => true })
  return { ...original, Counters: Unforgetting }
})

/** The seed of a scenario to play alone. */
const SEED = process.env['SLUICE_SEED']
const STEPS = 500
const seeds =
  SEED === undefined ? Array.from({ length: propertyRuns(2) }, (_, n) => n + 1) : [Number(SEED)]
/** How many times a scenario may be replayed because the machine stalled. */
const TRIES_MAX = 5
/** How many shorter scenarios are tried for one that fails. */
const SHRINKS_MAX = 100

let redis: RedisServer
let cluster: RedisCluster
let places: readonly Place[]
beforeAll(async () => {
  redis = await startRedis()
  cluster = await startCluster({ primaries: 3, replicas: 0 })
  places = [
    { name: 'one Redis', url: redis.url, servers: [redis] },
    { name: 'a Cluster', url: cluster.url, servers: cluster.nodes },
  ]
})
afterAll(async () => {
  await cluster.stop()
  await redis.stop()
})

async function play(scenario: Scenario): Promise<Difference | undefined> {
  for (let tries = 1; ; tries++) {
    try {
      return await playScenario(scenario, places)
    } catch (error) {
      if (!(error instanceof TooSlowError) || tries === TRIES_MAX) throw error
    }
  }
}

/** Leaves out steps, and then rules, as long as there is a difference. */
async function shrink(scenario: Scenario, found: Difference) {
  let shortest = { scenario: upTo(scenario, found), found }
  let tries = 0
  for (let size = Math.ceil(found.at / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let from = 0; from < shortest.scenario.steps.length - 1 && tries < SHRINKS_MAX; ) {
      tries += 1
      const steps = shortest.scenario.steps.toSpliced(from, size)
      const shorter = { ...shortest.scenario, steps }
      const difference = await play(shorter)
      if (difference === undefined) from += size
      else shortest = { scenario: upTo(shorter, difference), found: difference }
    }
  }
  for (const rule of scenario.rules) {
    const rules = shortest.scenario.rules.filter((each) => each !== rule)
    const smaller = { ...shortest.scenario, rules }
    const difference = await play(smaller).catch(() => undefined)
    if (difference !== undefined) {
      shortest = { scenario: upTo(smaller, difference), found: difference }
    }
  }
  return shortest
}

const upTo = (scenario: Scenario, { at }: Difference): Scenario => ({
  ...scenario,
  steps: scenario.steps.slice(0, at + 1),
})

function report(seed: number, first: Difference, { scenario, found }: Shrunk): string {
  return [
    `seed ${seed}, step ${first.at}: ${first.place} and the memory store differ.`,
    `To play it again: SLUICE_SEED=${seed} npx vitest run e2e/redis/differential.test.ts`,
    `The same in ${scenario.steps.length} steps, ${scenario.layout} layout, deny cache`,
    `${scenario.denyCacheMs} ms, from ${scenario.startUs}:`,
    ...scenario.rules.map((rule) => `  rule ${JSON.stringify(rule)}`),
    ...scenario.steps.map((step) => `  ${JSON.stringify(step)}`),
    `At ${found.place}, the memory store first:`,
    ...fieldsThatDiffer('', found.memory, found.other),
  ].join('\n')
}

/** Each with its place, the expected and the found value. */
function fieldsThatDiffer(place: string, memory: unknown, other: unknown): readonly string[] {
  if (JSON.stringify(memory) === JSON.stringify(other)) return []
  if (!isRecord(memory) || !isRecord(other)) {
    return [`  ${place}: ${JSON.stringify(memory)}, ${JSON.stringify(other)}`]
  }
  const names = new Set([...Object.keys(memory), ...Object.keys(other)])
  return [...names].flatMap((name) =>
    fieldsThatDiffer(`${place}.${name}`, memory[name], other[name]),
  )
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}

type Shrunk = Awaited<ReturnType<typeof shrink>>

describe('one Redis and a Cluster decide as the memory store does', () => {
  test.each(seeds)(`in a random scenario of ${STEPS} steps, seed %i`, async (seed) => {
    const scenario = makeScenario(seed, STEPS, loads)
    const found = await play(scenario)
    if (found !== undefined) expect.fail(report(seed, found, await shrink(scenario, found)))
  })
})

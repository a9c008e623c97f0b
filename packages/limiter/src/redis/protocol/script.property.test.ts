/**
 * The script against the memory store, on random batches: every number of every outcome and every
 * state is the same on both sides. `SLUICE_RUNS` multiplies the number of scenarios.
 */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  ceilingLimit,
  type CounterKey,
  defineBlock,
  defineLimit,
  isConcurrency,
  layoutOf,
  type Limit,
  MODULE_NAMES,
  type ModuleName,
  modules,
  shortenLog,
} from '@sluice/core'
import { scanWithoutTtl } from '../../../../../tools/redis/server.mjs'
import { specs } from '../../../../core/src/algorithms/traces.test-helper.js'
import { memoryStore } from '../../memory/memory-store.js'
import { manualClock } from '../../testing/index.js'
import {
  type BatchRedis,
  keyOf,
  LAYOUTS,
  type Layout,
  startBatchRedis,
} from './redis.test-helper.js'
import type { BatchReply } from './batch-reply.js'
import type { StoreOp } from './batch-request.js'
import { Dice } from '../../dice.test-helper.js'
import { type Expected, type Played, Scenario, withOnRefusal } from './scenario.test-helper.js'
import { propertyRuns } from '../../../../../tools/property-runs.js'

/**
 * The memory store drops an expired state when it finds it, and Redis when its key expires; both
 * are allowed to. In this test the memory store drops nothing.
 */
vi.mock('../../memory/counters.js', () => {
  interface Kept {
    readonly format: number
    readonly state: unknown
  }
  class Unforgetting {
    readonly drops = 0
    readonly #records = new Map<string, number>()
    readonly #kept = new Map<number, Kept>()
    find({ hi, lo }: CounterKey): number {
      return this.#records.get(`${hi} ${lo}`) ?? -1
    }
    read(record: number, limit: Limit): unknown {
      const kept = this.#kept.get(record)
      return kept?.format === limit.format ? kept.state : undefined
    }
    write({ hi, lo }: CounterKey, record: number, limit: Limit, state: unknown): void {
      const at = record === -1 ? this.#records.size : record
      this.#records.set(`${hi} ${lo}`, at)
      this.#kept.set(at, { format: limit.format, state })
    }
    rebind(): void {}
    delete(key: CounterKey): void {
      this.#kept.delete(this.find(key))
    }
  }
  return { Counters: Unforgetting }
})

const COUNTERS = 3
const LIMITS_EACH = 3
const BATCHES = 32
/** So that each verb runs at least 10^4 times in the plain layout. */
const SCENARIOS = { plain: 800, packed: 200 } as const
const SCENARIOS_AT_ONCE = 50
const YEAR_MS = 31_622_400_000

let redis: BatchRedis
beforeAll(async () => {
  redis = await startBatchRedis()
})
afterAll(() => redis.stop())

function sampled(algorithms: readonly ModuleName[], seed: number): readonly Limit[] {
  const each = Math.ceil(200 / algorithms.length)
  return algorithms.flatMap((algorithm, index) => {
    const dice = new Dice(seed + index)
    return fc
      .sample(specs(algorithm, { lends: true }), { numRuns: each, seed: seed + index })
      .map((spec) => withOnRefusal(spec, dice))
  })
}

function sampledBlocks(count: number, seed: number): readonly Limit[] {
  const dice = new Dice(seed)
  return Array.from({ length: count }, () => {
    const firstMs = dice.pick([250, 1000, 60_000, YEAR_MS])
    const maxMs = Math.min(YEAR_MS, firstMs * dice.pick([1, 3, 10, 1000]))
    const [factor, forgetMs] = [dice.pick([1, 2, 100]), dice.pick([250, 60_000, 86_400_000])]
    return defineBlock('block', { firstMs, factor, maxMs, forgetMs })
  })
}

/** An empty list equals none, and Redis keeps none; of a long log it shows a short form. */
function stateOf(state: unknown, limit: Limit | undefined): unknown {
  if (!Array.isArray(state)) return state
  if (state.length === 0) return undefined
  return limit !== undefined && isConcurrency(limit) ? state : shortenLog(state)
}

/** The expected reply of the script: a refusal includes the state, but not of a list. */
function expectedOf(op: StoreOp, expected: Expected): unknown {
  if (op.verb !== 'take' && op.verb !== 'peek') return undefined
  return expected?.map((group, g) =>
    group.map(({ state, ...numbers }, i) => {
      const limit = op.groups[g]?.[i]?.limit
      const isList = limit !== undefined && layoutOf(limit) === undefined
      const isRefused = numbers.retryAfterMs !== 0 && !isList
      const carries = op.states || isRefused
      return carries ? { ...numbers, state: stateOf(state, limit) } : numbers
    }),
  )
}

function answerOf(op: StoreOp, answer: BatchReply['answers'][number]): unknown {
  if (answer === 'spoiled' || answer === undefined) return answer
  const groups = 'groups' in op ? op.groups : []
  return answer.map((group, g) =>
    group.map((outcome, i) =>
      typeof outcome === 'object' && 'state' in outcome
        ? { ...outcome, state: stateOf(outcome.state, groups[g]?.[i]?.limit) }
        : outcome,
    ),
  )
}

async function compare(layout: Layout, all: readonly Played[], seed: number): Promise<void> {
  const replies = await redis.run(
    layout,
    all.flatMap(({ batches }) => batches),
  )
  let next = 0
  all.forEach(({ batches, expected }, scenario) => {
    batches.forEach(({ ops, times }, batch) => {
      const reply = replies[next]
      next += 1
      ops.forEach((op, i) => {
        const should = expectedOf(op, expected[batch]?.[i])
        const does = answerOf(op, reply?.answers[i])
        // A hundred times as fast as a comparison field by field, which is then for the message.
        if (JSON.stringify(should) === JSON.stringify(does)) return
        const place = `seed ${seed}, scenario ${scenario}, batch ${batch} at ${times.now}, op ${i}`
        expect(does, `${place}: ${JSON.stringify(op)}`).toEqual(should)
      })
    })
  })
}

interface Variants {
  /** The limits of one counter, made from one limit. @default three that are drawn */
  readonly variantsOf?: (limit: Limit) => readonly Limit[]
  readonly changesOneIn?: number
}

async function runScenarios(
  layout: Layout,
  limits: readonly Limit[],
  seed: number,
  options: Variants = {},
): Promise<Record<StoreOp['verb'], number>> {
  const { variantsOf, changesOneIn } = options
  await redis.client.flushall()
  const dice = new Dice(seed)
  const steps = { take: 0, peek: 0, give: 0, charge: 0, reset: 0 }
  let counters = 0
  for (let done = 0; done < propertyRuns(SCENARIOS[layout]); done += SCENARIOS_AT_ONCE) {
    const all: Played[] = []
    while (all.length < SCENARIOS_AT_ONCE) {
      const clock = manualClock()
      const scenario = new Scenario(
        {
          dice,
          batches: BATCHES,
          startUs: dice.oneIn(2) ? dice.below(1e9) : 1_700_000_000_000_000 + dice.below(1e9),
          keys: Array.from({ length: COUNTERS }, () => keyOf(counters++)),
          limits: Array.from({ length: COUNTERS }, () =>
            variantsOf === undefined
              ? Array.from({ length: LIMITS_EACH }, () => dice.pick(limits))
              : variantsOf(dice.pick(limits)),
          ),
          ...(changesOneIn === undefined ? {} : { changesOneIn }),
        },
        { clock, store: memoryStore({ clock }) },
      )
      all.push(scenario.play())
      for (const verb of Object.keys(steps) as (keyof typeof steps)[]) {
        steps[verb] += scenario.steps[verb]
      }
    }
    await compare(layout, all, seed)
  }
  expect(await scanWithoutTtl(redis.server)).toEqual([])
  return steps
}

describe.each(LAYOUTS)('in the %s layout the script answers like the memory store', (layout) => {
  test.each(MODULE_NAMES)('%s', async (algorithm) => {
    const steps = await runScenarios(layout, sampled([algorithm], 1), 1)
    if (layout === 'plain') {
      const { reset, ...others } = steps
      expect(Math.min(...Object.values(others))).toBeGreaterThanOrEqual(propertyRuns(10_000))
      expect(reset).toBeGreaterThan(propertyRuns(1000))
    }
  })

  test('for counters that change their algorithm', async () => {
    const apart: readonly ModuleName[] = MODULE_NAMES.filter(
      (name) => layout === 'plain' || modules[name].layout !== undefined,
    )
    await runScenarios(layout, sampled(apart, 2), 2)
  })

  test.each(MODULE_NAMES)('for priorities that share a counter of %s', async (algorithm) => {
    const ceilings = (limit: Limit) =>
      [[], [2000], [2000, 1250], [2000, 1250, 1]].map((reserves) => ceilingLimit(limit, reserves))
    await runScenarios(layout, sampled([algorithm], 4), 4, {
      variantsOf: ceilings,
      changesOneIn: 2,
    })
  })

  test('for blocks, which are charged when the take before them is refused', async () => {
    const others = sampled(['fixed-window', 'caller-window', 'token-bucket'], 3)
    const small = others.filter(({ max }) => max < 20)
    await runScenarios(layout, [...small.slice(0, 30), ...sampledBlocks(60, 3)], 3)
  })
})

test('a log of thousands of entries behaves as in the memory store', async () => {
  await redis.client.flushall()
  for (let seed = 1; seed <= propertyRuns(2); seed++) {
    const dice = new Dice(seed)
    const clock = manualClock()
    const log = (max: number, windowMs: number) =>
      defineLimit({ algorithm: 'sliding-window-log', max, windowMs, name: 'log' })
    const scenario = new Scenario(
      {
        dice,
        batches: 4000,
        paceUs: 4000,
        startUs: 1_700_000_000_000_000,
        keys: [keyOf(seed)],
        limits: [[log(10_000, 20_000), log(3000, 20_000), log(3000, 8000), log(4000, 30_000)]],
      },
      { clock, store: memoryStore({ clock }) },
    )
    await compare('plain', [scenario.play()], seed)
  }
  // A long log is written in parts.
  const { cmdstat_setrange = '' } = await redis.server.info('commandstats')
  expect(Number(/calls=(\d+)/.exec(cmdstat_setrange)?.[1])).toBeGreaterThan(2000)
  expect(await scanWithoutTtl(redis.server)).toEqual([])
})

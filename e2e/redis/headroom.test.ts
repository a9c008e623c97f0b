/** Calls of all priorities from several processes on one counter: every ceiling is exact. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { propertyRuns } from '../../tools/property-runs.js'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'
import { runNodes } from './decision-nodes.test-helper.js'

const NODES = 4
const MAX = 9000
/** By priority: what more important ones leave of `MAX`. */
const CEILINGS = { critical: 9000, writes: 8100, reads: 7200, test: 6300 }
/** How often each comes in ten calls. */
const MIX = { critical: 1, writes: 2, reads: 5, test: 2 }

/** Windows and refills that do not matter during the test. */
const LIMITS = [
  { algorithm: 'fixed-window', max: MAX, window: '366d' },
  { algorithm: 'sliding-window-counter', max: MAX, window: '30d' },
  { algorithm: 'token-bucket', max: MAX, window: '366d' },
  { algorithm: 'gcra', max: MAX, window: '366d', burst: MAX },
]
const CALLS = Math.ceil(propertyRuns(1_000_000) / LIMITS.length / NODES)

let redis: RedisServer

beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

test.each(LIMITS)(
  `${NODES} processes decide ${CALLS} calls each of one $algorithm: each unit is given once, none above the ceiling of its priority`,
  async (limit) => {
    const attributes = Object.entries(MIX).flatMap(([priority, times]) =>
      Array.from({ length: times }, () => ({ priority })),
    )
    const results = await runNodes(NODES, {
      url: redis.url,
      rules: {
        priorities: Object.keys(CEILINGS),
        rules: [
          {
            id: limit.algorithm,
            by: [],
            limits: [limit],
            headroom: { critical: '10%', writes: '10%', reads: '10%' },
            protects: 'capacity',
          },
        ],
      },
      calls: CALLS,
      waiting: 64,
      attributes,
    })
    for (const { sources } of results) expect(sources).toEqual({ store: CALLS })
    // Nobody was refused while its ceiling had room.
    expect(results.map(({ refusedWithRoom }) => refusedWithRoom)).toEqual([0, 0, 0, 0])
    const units = results.flatMap((result) => result.units)
    const used = units.map(([, unit]) => unit).toSorted((a, b) => a - b)
    expect(used).toEqual(Array.from({ length: MAX }, (_, i) => i + 1))
    expect(units.filter(([ceiling, unit]) => unit > ceiling)).toEqual([])
    const highest = (ceiling: number) =>
      Math.max(...units.filter(([limitOf]) => limitOf === ceiling).map(([, unit]) => unit))
    expect(new Set(units.map(([ceiling]) => ceiling))).toEqual(new Set(Object.values(CEILINGS)))
    expect(highest(CEILINGS.critical)).toBe(MAX)
  },
)

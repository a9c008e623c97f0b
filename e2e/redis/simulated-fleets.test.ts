/**
 * The script in a real Redis, asked what simulated fleets asked their store: at the same times it
 * gives the same answers. Seeds in which the store changes its clock or its counters are left out:
 * where time goes back, the memory store may have dropped a state that Redis still has.
 */
import { isBlock } from '@sluice/core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  type Batch,
  type BatchRedis,
  LAYOUTS,
  startBatchRedis,
} from '../../packages/limiter/src/redis/protocol/redis.test-helper.js'
import { generateScenario } from '../../simulation/generate.js'
import type { Execution } from '../../simulation/sim-server.js'
import { runScenario } from '../../simulation/sim-world.js'
import { propertyRuns } from '../../tools/property-runs.js'

const SEEDS = propertyRuns(120)

let redis: BatchRedis
beforeAll(async () => {
  redis = await startBatchRedis()
})
afterAll(() => redis.stop())

/** The operations on counters of all seeds with a block or a window that begins with a call. */
async function executionsOf(seed: number): Promise<readonly Execution[]> {
  const scenario = generateScenario(seed)
  const isUsed = scenario.rules.some(({ limits }) =>
    limits.some(({ start, block }) => start !== undefined || block !== undefined),
  )
  const isSteady = scenario.faults.every(({ kind }) => kind !== 'failover' && kind !== 'store-jump')
  const executions: Execution[] = []
  if (!isUsed || !isSteady) return executions
  await runScenario(scenario, {
    only: 'none',
    onExecution: (execution) => {
      if (!execution.reply.late) executions.push(execution)
    },
  })
  return executions
}

function batchesOf(executions: readonly Execution[]): readonly Batch[] {
  return executions.flatMap(({ request: { operation }, storeUs }) => {
    if (operation.verb === 'beat' || operation.verb === 'time') return []
    const op = operation.verb === 'peek' ? { ...operation, states: true } : operation
    return { ops: [op], times: { notAfter: 0, now: storeUs } }
  })
}

/**
 * Outcomes without what follows from a state that has expired: the memory store may have dropped
 * it. Units that are given back to such a state change nothing.
 */
function comparable(answers: unknown): string {
  return JSON.stringify(answers, (name, value: unknown) => {
    if (name === 'state') return undefined
    return name === 'granted' && typeof value === 'number' ? Math.max(0, value) : value
  })
}

test.each(LAYOUTS)(
  'in the %s layout the script blocks and admits as the simulated store does',
  async (layout) => {
    let takes = 0
    let refusalsByBlock = 0
    for (let seed = 0; seed < SEEDS; seed++) {
      const executions = await executionsOf(seed)
      await redis.client.flushall()
      const batches = batchesOf(executions)
      const replies = await redis.run(layout, batches)
      const asked = executions.filter(({ request: { operation } }) => {
        return operation.verb !== 'beat' && operation.verb !== 'time'
      })
      for (const [i, { request, reply, storeUs }] of asked.entries()) {
        if (request.operation.verb !== 'take') continue
        const given = comparable(replies[i]?.answers[0])
        const expected = comparable(reply.answers)
        if (given !== expected) expect(given, `seed ${seed} at ${storeUs}`).toBe(expected)
        takes += 1
        for (const [g, group] of request.operation.groups.entries()) {
          for (const [k, { limit }] of group.entries()) {
            const answer = reply.answers?.[g]?.[k]
            const isRefused = typeof answer === 'object' && answer.retryAfterMs !== 0
            if (isBlock(limit) && isRefused) refusalsByBlock += 1
          }
        }
      }
    }
    expect(takes).toBeGreaterThan(10 * SEEDS)
    expect(refusalsByBlock).toBeGreaterThan(SEEDS)
  },
  120_000,
)

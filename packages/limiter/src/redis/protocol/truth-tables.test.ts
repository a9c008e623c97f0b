/** The truth tables of conformance/ through the script, on a real Redis. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type BlockSpec,
  type CounterKey,
  defineBlock,
  defineLimit,
  type Limit,
  type LimitSpec,
  type Outcome,
} from '@sluice/core'
import block from '../../../../../conformance/block.json' with { type: 'json' }
import calendarWindow from '../../../../../conformance/calendar-window.json' with { type: 'json' }
import callerWindow from '../../../../../conformance/caller-window.json' with { type: 'json' }
import concurrency from '../../../../../conformance/concurrency.json' with { type: 'json' }
import fixedWindow from '../../../../../conformance/fixed-window.json' with { type: 'json' }
import gcra from '../../../../../conformance/gcra.json' with { type: 'json' }
import leakyBucket from '../../../../../conformance/leaky-bucket.json' with { type: 'json' }
import slidingWindowCounter from '../../../../../conformance/sliding-window-counter.json' with {
  type: 'json',
}
import slidingWindowLog from '../../../../../conformance/sliding-window-log.json' with {
  type: 'json',
}
import tokenBucket from '../../../../../conformance/token-bucket.json' with { type: 'json' }
import { type Batch, type BatchRedis, LAYOUTS, startBatchRedis } from './redis.test-helper.js'
import type { BatchReply } from './batch-reply.js'
import type { StoreOp } from './batch-request.js'

type TableLimit = LimitSpec | BlockSpec

interface TableStep {
  readonly n: number
  readonly atUs: number
  readonly verb: 'take' | 'peek' | 'give' | 'charge'
  readonly amount: number
  readonly atLeast?: number
  readonly gate?: boolean
  readonly overdraw?: boolean
  readonly takenAtUs?: number
  readonly spentAtUs?: number
  /** Whose places are taken, given back or renewed. */
  readonly holder?: number
  readonly undone?: boolean
  readonly debt?: number
  readonly limit?: TableLimit
  readonly expect: Omit<Outcome, 'at'> & { readonly atUs: number }
}

interface TableGroup {
  readonly comment: string
  readonly limit: TableLimit
  readonly steps: readonly TableStep[]
}

interface Table {
  readonly algorithm: string
  readonly groups: readonly TableGroup[]
}

const tables = [
  tokenBucket,
  gcra,
  leakyBucket,
  fixedWindow,
  slidingWindowCounter,
  slidingWindowLog,
  callerWindow,
  concurrency,
  calendarWindow,
  block,
] as readonly unknown[] as readonly Table[]

/**
 * The script takes the time 0 for its own clock; the tables of buckets start there and are shifted.
 */
const SHIFT_US = 3_600_000_000

let redis: BatchRedis
beforeAll(async () => {
  redis = await startBatchRedis()
})
afterAll(() => redis.stop())

/** A step, and for a give or a charge the outcome of a peek of 1 right after it. */
function opsOf(step: TableStep, key: CounterKey, limit: Limit, shift: number): readonly StoreOp[] {
  const { verb, amount, atLeast, gate, overdraw, holder, debt = 0, undone } = step
  const { takenAtUs, spentAtUs = step.atUs } = step
  const at = takenAtUs === undefined ? holder : takenAtUs + shift
  const asked = verb === 'take' || verb === 'peek'
  const take = asked
    ? { key, limit, amount, atLeast, gate, overdraw, at, holder }
    : { key, limit, amount: 1 }
  const look: StoreOp = { verb: verb === 'take' ? 'take' : 'peek', groups: [[take]], states: false }
  if (verb === 'give') return [{ verb, give: { key, limit, amount, at, undone } }, look]
  if (verb === 'charge') {
    return [{ verb, charge: { key, limit, amount, at: holder ?? spentAtUs + shift, debt } }, look]
  }
  return [look]
}

function limitOf(spec: TableLimit): Limit {
  return 'firstMs' in spec ? defineBlock('block', spec) : defineLimit(spec)
}

function batchesOf({ limit, steps }: TableGroup, key: CounterKey, shift: number): readonly Batch[] {
  let current = limitOf(limit)
  return steps.map((step) => {
    if (step.limit !== undefined) current = limitOf(step.limit)
    return {
      ops: opsOf(step, key, current, shift),
      times: { notAfter: 0, now: step.atUs + shift },
    }
  })
}

function outcomeOf({ answers }: BatchReply, shift: number): unknown {
  const [[answer] = []] = answers.at(-1) as readonly (readonly (Outcome & { state?: unknown })[])[]
  if (answer === undefined) return undefined
  const { at, state: _, ...numbers } = answer
  return { ...numbers, atUs: at - shift }
}

describe.each(LAYOUTS)('in the %s layout the script agrees with the table', (layout) => {
  describe.each(tables)('$algorithm', ({ algorithm, groups }) => {
    test.each(groups.map((group, index) => ({ ...group, index })))('$comment', async (group) => {
      const lo = group.index * 64 + tables.findIndex((table) => table.algorithm === algorithm)
      const shift = group.steps.some(({ atUs }) => atUs === 0) ? SHIFT_US : 0
      const batches = batchesOf(group, { hi: layout.length, lo, partition: lo % 128 }, shift)
      const replies = await redis.run(layout, batches)
      group.steps.forEach((step, index) => {
        const reply = replies[index]
        expect(reply && outcomeOf(reply, shift), `step ${step.n}`).toEqual(step.expect)
      })
    })
  })
})

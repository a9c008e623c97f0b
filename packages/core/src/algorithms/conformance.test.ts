/** Runs the truth tables of conformance/, which every other implementation runs as well. */
import { describe, expect, test } from 'vitest'
import calendarWindow from '../../../../conformance/calendar-window.json' with { type: 'json' }
import callerWindow from '../../../../conformance/caller-window.json' with { type: 'json' }
import fixedWindow from '../../../../conformance/fixed-window.json' with { type: 'json' }
import gcra from '../../../../conformance/gcra.json' with { type: 'json' }
import leakyBucket from '../../../../conformance/leaky-bucket.json' with { type: 'json' }
import slidingWindowCounter from '../../../../conformance/sliding-window-counter.json' with {
  type: 'json',
}
import slidingWindowLog from '../../../../conformance/sliding-window-log.json' with { type: 'json' }
import tokenBucket from '../../../../conformance/token-bucket.json' with { type: 'json' }
import { algorithmOf, modules, RATE_MODULE_NAMES, type RateModuleName } from './index.js'
import { defineLimit, type LimitSpec } from '../limit.js'
import type { Outcome } from './algorithm.js'
import { applyAct, type Counter, createStoredCounter } from './apply.test-helper.js'
import { createOracle } from './oracle.test-helper.js'

interface TableStep {
  readonly n: number
  readonly atUs: number
  readonly verb: 'take' | 'peek' | 'give' | 'charge'
  readonly amount: number
  readonly atLeast?: number
  readonly gate?: boolean
  readonly overdraw?: boolean
  /**
   * The `at` of the units given back, by a give or by a take of an amount below 0; absent for the
   * present window.
   */
  readonly takenAtUs?: number
  readonly spentAtUs?: number
  /** For a give: whether its call was never admitted. */
  readonly undone?: boolean
  readonly debt?: number
  /** The limit from this step on. */
  readonly limit?: LimitSpec
  /** For a give or a charge: the outcome of a peek of 1 right after it. */
  readonly expect: Omit<Outcome, 'at'> & { readonly atUs: number }
  readonly comment?: string
}

interface Table {
  readonly algorithm: RateModuleName
  readonly about: string
  readonly groups: readonly {
    readonly comment: string
    readonly limit: LimitSpec
    readonly steps: readonly TableStep[]
  }[]
}

const tables = [
  tokenBucket,
  gcra,
  leakyBucket,
  fixedWindow,
  slidingWindowCounter,
  slidingWindowLog,
  callerWindow,
  calendarWindow,
] as readonly unknown[] as readonly Table[]

function applyStep(counter: Counter, step: TableStep): TableStep['expect'] {
  const { verb, amount, atLeast, gate, overdraw, debt, undone, atUs: now } = step
  const at = verb === 'charge' ? step.spentAtUs : step.takenAtUs
  const limit = step.limit === undefined ? undefined : defineLimit(step.limit)
  const { at: atUs, ...numbers } = applyAct(counter, {
    verb,
    now,
    amount,
    atLeast,
    gate,
    overdraw,
    at,
    debt,
    undone,
    limit,
  })
  return { ...numbers, atUs }
}

test('every algorithm that counts units in time has a truth table', () => {
  expect(tables.map((table) => table.algorithm)).toEqual(RATE_MODULE_NAMES)
})

describe.each(tables)('$algorithm', ({ algorithm, groups }) => {
  test('the table has at least 30 steps of its own algorithm, numbered without gaps', () => {
    const steps = groups.flatMap((group) => group.steps)
    expect(steps.length).toBeGreaterThanOrEqual(30)
    expect(steps.map((step) => step.n)).toEqual(steps.map((_, index) => index + 1))
    const limits = [...groups, ...steps].flatMap(({ limit }) => (limit === undefined ? [] : limit))
    const counted = limits.map((limit) => algorithmOf(defineLimit(limit)))
    expect(new Set(counted)).toEqual(new Set([modules[algorithm]]))
  })

  test.each(groups)('$comment', ({ limit, steps }) => {
    const counter = createStoredCounter(defineLimit(limit))
    for (const step of steps) {
      expect(applyStep(counter, step), `step ${step.n}`).toEqual(step.expect)
    }
  })

  test('the exact model agrees with the table', () => {
    for (const { limit, steps } of groups) {
      const counter = createOracle(defineLimit(limit))
      for (const step of steps) {
        expect(applyStep(counter, step), `step ${step.n}`).toEqual(step.expect)
      }
    }
  })
})

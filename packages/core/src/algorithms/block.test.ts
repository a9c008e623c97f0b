import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import table from '../../../../conformance/block.json' with { type: 'json' }
import { applyAct, createStoredCounter } from './apply.test-helper.js'
import { algorithmOf, layoutOf, MODULE_NAMES, modules, STORED_ALGORITHMS } from './index.js'
import { type Block, blockAlgorithm, type BlockSpec, defineBlock, isBlock } from './block.js'

type Steps = readonly {
  readonly n: number
  readonly atUs: number
  readonly verb: 'take' | 'peek' | 'give' | 'charge'
  readonly amount: number
  readonly limit?: BlockSpec
  readonly expect: object
}[]

const SECOND = 1_000_000
const SPEC: BlockSpec = { firstMs: 60_000, factor: 2, maxMs: 150_000, forgetMs: 3_600_000 }
const limit = defineBlock('tries', SPEC)
const { take, peek, give, charge, expiresAt } = {
  take: (state: Block | undefined, amount: number, now: number) =>
    blockAlgorithm.take(state, limit, amount, now),
  peek: (state: Block | undefined, amount: number, now: number) =>
    blockAlgorithm.peek(state, limit, amount, now),
  give: (state: Block | undefined, now: number) => blockAlgorithm.give(state, limit, 1, now),
  charge: (state: Block | undefined, now: number) =>
    blockAlgorithm.charge(state, limit, 1, now, now, 0),
  expiresAt: (state: Block) => blockAlgorithm.expiresAt(state, limit),
}

test('a block is stored under a format of its own', () => {
  expect(algorithmOf(limit)).toBe(blockAlgorithm)
  expect(layoutOf(limit)).toBe(blockAlgorithm.layout)
  expect(isBlock(limit)).toBe(true)
  const formats = STORED_ALGORITHMS.map(({ format }) => format)
  expect(new Set(formats).size).toBe(formats.length)
  expect(Object.keys(blockAlgorithm)).toEqual(Object.keys(modules['token-bucket']))
  expect(MODULE_NAMES).not.toContain('block')
})

describe('the truth table', () => {
  test.each(table.groups)('$comment', ({ limit: spec, steps }) => {
    const counter = createStoredCounter(defineBlock('block', spec))
    for (const { n, atUs: now, verb, amount, limit: changed, expect: expected } of steps as Steps) {
      const next = changed === undefined ? undefined : defineBlock('block', changed)
      const { at: atUs, ...numbers } = applyAct(counter, { verb, now, amount, limit: next })
      expect({ ...numbers, atUs }, `step ${n}`).toEqual(expected)
    }
  })
})

test('a stored block reads back from memory and from a reply', () => {
  const state = { until: 5, times: 3 }
  const doubles = new Float64Array(3)
  blockAlgorithm.layout?.write(state, doubles, 1)
  expect(blockAlgorithm.layout?.read(doubles, 1)).toEqual(state)
  const numbers = [5, 3]
  expect(blockAlgorithm.layout?.decode({ readCount: () => numbers.shift() ?? -1 })).toEqual(state)
})

describe('a block', () => {
  const now = 1000 * SECOND

  test('takes no units and passes until it is charged', () => {
    const outcome = { granted: 0, remaining: 1, resetAfterMs: 0, retryAfterMs: 0, delayMs: 0 }
    expect(take(undefined, 3, now)).toMatchObject({ ...outcome, at: now, state: undefined })
    expect(give({ until: now + 1, times: 1 }, now)).toBeUndefined()
  })

  test('refuses until its end, except a cost of 0', () => {
    const state = charge(undefined, now)
    expect(state).toEqual({ until: now + 60 * SECOND, times: 1 })
    const refused = { granted: 0, remaining: 0, retryAfterMs: 60_000, resetAfterMs: 60_000 }
    expect(take(state, 1, now)).toMatchObject(refused)
    expect(peek(state, 1, now)).toMatchObject(refused)
    expect(take(state, 0, now)).toMatchObject({ retryAfterMs: 0, state: undefined })
    expect(take(state, 1, now + 60 * SECOND - 1).retryAfterMs).toBe(1)
    expect(take(state, 1, now + 60 * SECOND).retryAfterMs).toBe(0)
  })

  test('is not charged while it lasts', () => {
    const state = charge(undefined, now)
    expect(charge(state, now + 59 * SECOND)).toBeUndefined()
  })

  test('grows up to the longest, and begins anew when it is forgotten', () => {
    let state: Block | undefined
    let at = now
    const lengths = [60, 120, 150, 150].map(() => {
      state = charge(state, at)
      const length = ((state?.until ?? 0) - at) / SECOND
      at = state?.until ?? 0
      return length
    })
    expect(lengths).toEqual([60, 120, 150, 150])
    const last = state ?? { until: 0, times: 0 }
    expect(expiresAt(last)).toBe(at + 3600 * SECOND)
    expect(charge(last, at + 3600 * SECOND - 1)?.times).toBe(5)
    expect(charge(last, at + 3600 * SECOND)).toMatchObject({ times: 1 })
  })

  test('a block from another clock is moved to now, and stored even by a refusal', () => {
    const state = { until: now + 151 * SECOND, times: 1 }
    const moved = { until: now + 60 * SECOND, times: 1 }
    expect(take(state, 1, now)).toMatchObject({ retryAfterMs: 60_000, rebased: moved })
    expect(take(state, 0, now).rebased).toBeUndefined()
    const near = { until: now + 150 * SECOND, times: 1 }
    expect(take(near, 1, now)).toMatchObject({ retryAfterMs: 150_000, rebased: undefined })
  })
})

test('a block never lasts longer than the longest, whatever its numbers', () => {
  const specs = fc.record({
    firstMs: fc.integer({ min: 250, max: 31_622_400_000 }),
    factor: fc.integer({ min: 1, max: 100 }),
    more: fc.integer({ min: 0, max: 31_622_400_000 }),
    forgetMs: fc.integer({ min: 250, max: 31_622_400_000 }),
    times: fc.integer({ min: 0, max: 2 ** 32 }),
  })
  fc.assert(
    fc.property(specs, ({ firstMs, factor, more, forgetMs, times }) => {
      const maxMs = Math.min(31_622_400_000, firstMs + more)
      const any = defineBlock('any', { firstMs, factor, maxMs, forgetMs })
      const at = 1_700_000_000_000_000
      const next = blockAlgorithm.charge({ until: at, times }, any, 1, at, at, 0)
      const lengthMs = ((next?.until ?? 0) - at) / 1000
      expect(lengthMs).toBeGreaterThanOrEqual(firstMs)
      expect(lengthMs).toBeLessThanOrEqual(maxMs)
      expect(
        Number.isSafeInteger(blockAlgorithm.expiresAt(next ?? { until: 0, times: 0 }, any)),
      ).toBe(true)
    }),
  )
})

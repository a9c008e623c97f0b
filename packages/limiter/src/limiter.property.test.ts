import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { MODULE_CHOICES, RATE_MODULE_NAMES } from '@sluice/core'
import { createLimiter, type Decision, type Limiter } from './index.js'
import { type ManualClock, manualClock } from './testing/index.js'
import { propertyRuns } from '../../../tools/property-runs.js'

/** `npm run test:long` multiplies the number of generated traces by this. */
const RUNS = propertyRuns(300)

const choices = fc.constantFrom(...RATE_MODULE_NAMES.map((name) => MODULE_CHOICES[name]))
const sizes = fc.record({
  max: fc.integer({ min: 0, max: 12 }),
  window: fc.constantFrom('250ms', '1s', '7s', '1m'),
})
const limit = fc.tuple(choices, sizes).map(([choice, sized]) => ({ ...choice, ...sized }))

const limits = fc
  .array(limit, { minLength: 1, maxLength: 3 })
  .map((list) => list.map((each, index) => ({ ...each, name: `n${index}` })))

const step = fc.record({
  afterMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 400 }), fc.integer({ max: 90_000 })),
  cost: fc.oneof(fc.constant(1), fc.integer({ min: 0, max: 15 })),
  user: fc.constantFrom('a', 'b'),
})
const trace = fc.array(
  step.map((each) => ({ ...each, afterMs: Math.max(0, each.afterMs) })),
  { maxLength: 60 },
)

const rule = (id: string, list: unknown[], more: object = {}) => ({
  id,
  by: ['user'],
  limits: list,
  ...more,
})
const callOf = ({ user, cost }: { user: string; cost: number }) => ({ attributes: { user }, cost })

/** Every number of every limit of a caller. */
async function figures(limiter: Limiter, user: string): Promise<string> {
  const { explain = [] } = await limiter.explain({ attributes: { user } })
  return JSON.stringify(explain.map(({ limits: list }) => list.map(({ state }) => state)))
}

function start(rules: object[]): { clock: ManualClock; limiter: Limiter } {
  const clock = manualClock()
  return { clock, limiter: createLimiter({ rules, clock }) }
}

describe('for all limits and traces', () => {
  test('a refused call charges nothing', async () => {
    await fc.assert(
      fc.asyncProperty(limits, limits, trace, async (first, second, steps) => {
        const { clock, limiter } = start([rule('a', first), rule('b', second)])
        for (const each of steps) {
          clock.advance(each.afterMs)
          const before = await figures(limiter, each.user)
          const { allowed } = limiter.checkSync(callOf(each))
          if (!allowed) expect(await figures(limiter, each.user)).toBe(before)
        }
      }),
      { numRuns: RUNS },
    )
  })

  test('peek and cost 0 change nothing, and peek predicts what check then does', async () => {
    await fc.assert(
      fc.asyncProperty(limits, trace, async (list, steps) => {
        const { clock, limiter } = start([rule('a', list)])
        for (const each of steps) {
          clock.advance(each.afterMs)
          const before = await figures(limiter, each.user)
          const peeked = await limiter.peek(callOf(each))
          expect(limiter.checkSync({ ...callOf(each), cost: 0 }).allowed).toBe(true)
          expect(await figures(limiter, each.user)).toBe(before)
          const { allowed, retryAfterMs, delayMs } = limiter.checkSync(callOf(each))
          expect({ allowed, retryAfterMs, delayMs }).toEqual({
            allowed: peeked.allowed,
            retryAfterMs: peeked.retryAfterMs,
            delayMs: peeked.delayMs,
          })
        }
      }),
      { numRuns: RUNS },
    )
  })

  test('waiting exactly retryAfterMs passes, and one millisecond less does not', () => {
    fc.assert(
      fc.property(limits, trace, (list, steps) => {
        const { clock, limiter } = start([rule('a', list)])
        for (const each of steps) {
          clock.advance(each.afterMs)
          const { allowed, retryAfterMs } = limiter.checkSync(callOf(each))
          if (allowed || retryAfterMs === null) continue
          clock.advance(retryAfterMs - 1)
          expect(limiter.checkSync(callOf(each)).allowed).toBe(false)
          clock.advance(1)
          expect(limiter.checkSync(callOf(each)).allowed).toBe(true)
        }
      }),
      { numRuns: RUNS },
    )
  })

  test('a shadow rule refuses nothing, and has the numbers of an equal enforced rule', () => {
    fc.assert(
      fc.property(limits, fc.boolean(), trace, (list, asCandidate, steps) => {
        const enforced = start([rule('twin', list)])
        const shadow = start([
          asCandidate
            ? rule('twin', ['1000000/second'], { candidate: { limits: list } })
            : rule('twin', list, { mode: 'shadow' }),
        ])
        const id = asCandidate ? 'twin:candidate' : 'twin'
        for (const each of steps) {
          enforced.clock.advance(each.afterMs)
          shadow.clock.advance(each.afterMs)
          const real = enforced.limiter.checkSync(callOf(each))
          const shadowDecision = shadow.limiter.checkSync(callOf(each))
          expect(shadowDecision.allowed).toBe(true)
          expect(shadowDecision.delayMs).toBe(0)
          expect(shadowDecision.shadow).toEqual(real.allowed ? [] : [id])
        }
      }),
      { numRuns: RUNS },
    )
  })

  test('refunding every receipt at once restores every counter', async () => {
    await fc.assert(
      fc.asyncProperty(limits, trace, async (list, steps) => {
        // A slot of a leaky bucket that was taken at once has passed: there is nothing to return.
        fc.pre(list.every(({ algorithm }) => algorithm !== 'leaky-bucket'))
        const { clock, limiter } = start([rule('a', list)])
        for (const each of steps) {
          clock.advance(each.afterMs)
          const remaining = (await limiter.peek(callOf(each))).policies().map((p) => p.remaining)
          const { receipt } = limiter.checkSync(callOf(each), { receipt: true })
          if (receipt !== undefined) await limiter.refund(receipt)
          const after = (await limiter.peek(callOf(each))).policies().map((p) => p.remaining)
          expect(after).toEqual(remaining)
        }
      }),
      { numRuns: RUNS },
    )
  })

  test('a change of max keeps what was used', async () => {
    const changed = fc.record({ list: limits, max: fc.integer({ min: 1, max: 30 }) })
    await fc.assert(
      fc.asyncProperty(changed, trace, async ({ list, max }, steps) => {
        const { clock, limiter } = start([rule('a', list)])
        for (const each of steps) {
          clock.advance(each.afterMs)
          limiter.checkSync(callOf(each))
        }
        const used = async () => {
          const { explain = [] } = await limiter.explain({ attributes: { user: 'a' }, cost: 0 })
          return explain[0]?.limits.map(({ state }) => JSON.stringify(state))
        }
        const before = await used()
        limiter.setRules([
          rule(
            'a',
            list.map((each) => ({ ...each, max })),
          ),
        ])
        expect(await used()).toEqual(before)
      }),
      { numRuns: RUNS },
    )
  })

  test('a decision is consistent: one binding limit, integers, and times that agree', () => {
    fc.assert(
      fc.property(limits, limits, trace, (first, second, steps) => {
        const { clock, limiter } = start([rule('a', first), rule('b', second)])
        for (const each of steps) {
          clock.advance(each.afterMs)
          expectWhole(limiter.checkSync(callOf(each)))
        }
      }),
      { numRuns: RUNS },
    )
  })
})

function expectWhole(decision: Decision): void {
  const { allowed, reason, retryAfterMs, remaining, limit: size, rule: bound } = decision
  const policies = decision.policies()
  expect(policies.some((policy) => policy.rule === bound)).toBe(true)
  expect(allowed).toBe(policies.every((policy) => policy.retryAfterMs === 0))
  expect(reason).toBe(allowed ? 'within' : retryAfterMs === null ? 'cost_exceeds_limit' : 'over')
  expect(remaining ?? 0).toBeLessThanOrEqual(size ?? 0)
  if (retryAfterMs !== null) {
    expect(retryAfterMs).toBe(
      Math.max(...policies.map((policy) => policy.retryAfterMs ?? Infinity)),
    )
  }
  for (const number of [remaining, decision.resetAfterMs, decision.delayMs]) {
    expect(Number.isSafeInteger(number)).toBe(true)
    expect(number).toBeGreaterThanOrEqual(0)
  }
}

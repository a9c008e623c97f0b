import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { call } from './limiter.test-helper.js'
import { type Fate, limiterOver, ScriptedStore, settled } from './scripted-store.test-helper.js'
import { propertyRuns } from '../../../tools/property-runs.js'

/** `npm run test:long` multiplies the number of generated traces by this. */
const RUNS = propertyRuns(200)

const limit = fc.record({
  algorithm: fc.constantFrom('fixed-window', 'token-bucket', 'sliding-window-counter'),
  max: fc.integer({ min: 0, max: 6 }),
  window: fc.constant('1h'),
})
const posture = fc.constantFrom('open', 'closed', 'local', { local: 0.5 }, { local: 3 })
const rule = fc.record({
  limits: fc.tuple(limit),
  posture,
  by: fc.constantFrom(['user'], ['ip'], ['user', 'ip']),
})
const rules = fc
  .tuple(fc.array(rule, { minLength: 1, maxLength: 3 }), fc.array(rule, { maxLength: 2 }))
  .map(([enforced, shadows]) => [
    ...enforced.map((each, i) => ({ ...each, id: `e${i}` })),
    ...shadows.map((each, i) => ({ ...each, id: `s${i}`, mode: 'shadow' })),
  ])
const fate = fc.constantFrom<Fate[]>('answer', 'answer', 'not-run', 'ran', 'lost')
const step = fc.record({
  fates: fc.array(fate, { minLength: 5, maxLength: 5 }),
  cost: fc.integer({ min: 0, max: 3 }),
  user: fc.constantFrom('a', 'b'),
  isLate: fc.boolean(),
})
const trace = fc.array(step, { maxLength: 25 })
const nodes = fc.integer({ min: 1, max: 4 })

const fateOf =
  (fates: readonly Fate[]) =>
  (group: number, at: number): Fate =>
    fates[(group * 2 + at) % fates.length] ?? 'answer'

/** The units of every counter that were granted and not returned. */
function used(store: ScriptedStore): number {
  const counts = new Map<string, number>()
  for (const { groups } of store.requests) {
    for (const take of groups.flat()) {
      const [[peeked] = []] = store.inner.sync.peek([[{ ...take, amount: 0 }]])
      const left = take.limit.capacity - (peeked?.remaining ?? 0)
      counts.set(`${take.key.hi}.${take.key.lo}`, left)
    }
  }
  return [...counts.values()].reduce((sum, each) => sum + each, 0)
}

describe('for all complete and partial answers of a store', () => {
  test('nothing granted to a refused call stays charged', async () => {
    await fc.assert(
      fc.asyncProperty(rules, trace, nodes, async (set, steps, fleet) => {
        const store = new ScriptedStore()
        store.nodes = fleet
        const limiter = limiterOver(store, set)
        await limiter.ready()
        for (const { fates, cost, user } of steps) {
          const before = used(store)
          store.script.fate = fateOf(fates)
          const { allowed } = await limiter.check(call({ user, ip: '192.0.2.1' }, cost))
          store.comeLate()
          await settled()
          if (!allowed) expect(used(store)).toBeLessThanOrEqual(before)
        }
        await limiter.close()
      }),
      { numRuns: RUNS },
    )
  })

  test('shadow rules refuse nothing, delay nothing and fail nothing', async () => {
    await fc.assert(
      fc.asyncProperty(rules, trace, nodes, async (set, steps, fleet) => {
        const shadows = set.map((each) => ({ ...each, mode: 'shadow' }))
        const store = new ScriptedStore()
        store.nodes = fleet
        const limiter = limiterOver(store, shadows)
        await limiter.ready()
        for (const { fates, cost, user, isLate } of steps) {
          store.script.fate = fateOf(fates)
          const decision = await limiter.check(call({ user, ip: '192.0.2.1' }, cost))
          expect(decision).toMatchObject({ allowed: true, delayMs: 0, source: 'store' })
          if (isLate) store.comeLate()
        }
        await limiter.close()
      }),
      { numRuns: RUNS },
    )
  })

  test('a counter never holds more than was admitted, nor less than the store said it granted', async () => {
    await fc.assert(
      fc.asyncProperty(trace, nodes, async (steps, fleet) => {
        const store = new ScriptedStore()
        store.nodes = fleet
        const limits = [{ algorithm: 'fixed-window', max: 1000, window: '1h' }]
        const limiter = limiterOver(store, [{ id: 'r', by: ['user'], limits }])
        await limiter.ready()
        let admitted = 0
        for (const { fates, cost, isLate } of steps) {
          store.all(fates[0] ?? 'answer')
          const { allowed } = await limiter.check(call({ user: 'a' }, cost))
          if (allowed) admitted += cost
          if (isLate) store.comeLate()
        }
        store.comeLate()
        store.recover()
        await settled()
        // Every fate is known by now, so the store has counted every unit.
        expect(used(store)).toBe(admitted)
        await limiter.close()
      }),
      { numRuns: RUNS },
    )
  })
})

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import table from '../../../../conformance/concurrency.json' with { type: 'json' }
import { propertyRuns } from '../../../../tools/property-runs.js'
import { defineLimit, findLimitProblem, type Limit, type LimitSpec } from '../limit.js'
import type { Outcome } from './algorithm.js'
import { type Act, applyAct, createStoredCounter } from './apply.test-helper.js'
import { concurrency, isConcurrency, placeHolders, type Places } from './concurrency.js'
import { specs } from './traces.test-helper.js'

const SECOND = 1_000_000
const limit = defineLimit({ algorithm: 'concurrency', max: 3, windowMs: 0 })

interface TableStep {
  readonly n: number
  readonly atUs: number
  readonly verb: Act['verb']
  readonly amount: number
  readonly holder?: number
  readonly debt?: number
  readonly limit?: LimitSpec
  readonly expect: object
}

interface TableGroup {
  readonly comment: string
  readonly limit: LimitSpec
  readonly steps: readonly TableStep[]
}

describe('the truth table', () => {
  const groups = table.groups as readonly unknown[] as readonly TableGroup[]

  test('has at least 30 steps, numbered without gaps', () => {
    const steps = groups.flatMap((group) => group.steps)
    expect(steps.length).toBeGreaterThanOrEqual(30)
    expect(steps.map((step) => step.n)).toEqual(steps.map((_, index) => index + 1))
  })

  test.each(groups)('$comment', ({ limit: first, steps }) => {
    const counter = createStoredCounter(defineLimit(first))
    for (const { n, atUs: now, limit: changed, expect: expected, ...act } of steps) {
      const next = changed === undefined ? undefined : defineLimit(changed)
      const { at: atUs, ...numbers } = applyAct(counter, {
        ...act,
        now,
        limit: next,
        at: act.holder,
      })
      expect({ ...numbers, atUs }, `step ${n}`).toEqual(expected)
    }
  })
})

/** What a holder has, in the model. */
interface Held {
  readonly places: number
  readonly expires: number
}

/** Places by holder, written from the specification alone: a map and no list. */
class PlacesModel {
  #limit: Limit
  #holders = new Map<number, Held>()

  constructor(first: Limit) {
    this.#limit = first
  }

  apply({ verb, now, amount, holder = 0, at, debt = 0, limit: changed }: Act): Outcome {
    if (changed !== undefined) this.#limit = changed
    const live = this.live(now)
    const lease = now + this.#limit.windowUs
    if (verb === 'take') {
      const outcome = this.outcome(amount, now)
      if (amount === 0) return outcome
      const isAhead = [...this.#holders.values()].some(({ expires }) => this.isOff(expires, now))
      if (outcome.retryAfterMs !== 0) {
        if (isAhead) this.#holders = live
        return outcome
      }
      live.set(holder, { places: (live.get(holder)?.places ?? 0) + amount, expires: lease })
      this.#holders = live
      const resetAfterMs = this.#limit.windowUs / 1000
      const remaining = outcome.remaining - amount
      return { ...outcome, granted: amount, remaining, resetAfterMs, at: holder }
    }
    if (verb === 'give' && at !== undefined) {
      const { places = 0, expires = 0 } = live.get(at) ?? {}
      if (places > 0) this.#holders = live
      if (amount >= places) live.delete(at)
      else live.set(at, { places: places - amount, expires })
    }
    if (verb === 'charge' && at !== undefined) {
      const before = live.get(at)?.places ?? 0
      const wanted = Math.min(amount, 1_000_000_000)
      const places = debt > 0 ? wanted : Math.max(before, wanted)
      if (places > 0 || before > 0) this.#holders = live
      if (places > 0) live.set(at, { places, expires: lease })
      else live.delete(at)
    }
    return this.outcome(verb === 'peek' ? amount : 1, now)
  }

  /** The holders as of now. */
  private live(now: number): Map<number, Held> {
    const lease = now + this.#limit.windowUs
    const live = [...this.#holders].filter(([, { expires }]) => expires > now)
    return new Map(
      live.map(([holder, { places, expires }]) => [
        holder,
        { places, expires: this.isOff(expires, now) ? lease : expires },
      ]),
    )
  }

  /** No lease is longer than five minutes. */
  private isOff(expires: number, now: number): boolean {
    return expires - now > 300 * SECOND
  }

  private outcome(amount: number, now: number): Outcome {
    const holders = [...this.live(now).values()]
    const used = holders.reduce((sum, { places }) => sum + places, 0)
    const last = Math.max(now, ...holders.map(({ expires }) => expires))
    const fits = amount === 0 || used + amount <= this.#limit.max
    return {
      granted: 0,
      remaining: Math.max(0, this.#limit.max - used),
      resetAfterMs: Math.ceil((last - now) / 1000),
      retryAfterMs: amount > this.#limit.max ? null : fits ? 0 : 1000,
      delayMs: 0,
      at: now,
    }
  }
}

const holders = fc.integer({ min: 0, max: 4 })
const moments = fc.record({
  verb: fc.constantFrom('take', 'take', 'take', 'peek', 'give', 'give', 'charge'),
  pauseShare: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 1500 })),
  /** In thousandths of a lease, and only now and then. */
  backShare: fc.oneof({ weight: 9, arbitrary: fc.constant(0) }, fc.integer({ min: 1, max: 5000 })),
  amount: fc.oneof(fc.integer({ min: 0, max: 4 }), fc.integer({ min: 0, max: 2_000_000_000 })),
  holder: holders,
  debt: fc.integer({ min: 0, max: 2 }),
  isNameless: fc.constantFrom(false, false, false, true),
})

const scenarios = fc.record({
  limits: fc.array(specs('concurrency'), { minLength: 1, maxLength: 3 }),
  start: fc.integer({ min: 10 ** 10, max: 1_700_000_000_000_000 }),
  moments: fc.array(moments, { minLength: 1, maxLength: 40 }),
})

/** Plays a scenario on a counter, and calls `each` with every act and its outcome. */
function play(
  { limits, start, moments: all }: typeof scenarios extends fc.Arbitrary<infer S> ? S : never,
  each: (act: Act, outcome: Outcome, places: Places, active: Limit) => void,
): void {
  const [first] = limits
  if (first === undefined) return
  let active = defineLimit(first)
  const counter = createStoredCounter(active)
  let now = start
  for (const [i, moment] of all.entries()) {
    const { verb, amount, holder, debt, isNameless } = moment
    const share = (thousandths: number) => Math.floor((active.windowUs / 1000) * thousandths)
    now = Math.max(1, now + share(moment.pauseShare) - share(moment.backShare))
    const next = limits[i % 7]
    if (next !== undefined) active = defineLimit(next)
    const at = isNameless && verb !== 'charge' ? undefined : holder
    const act = { verb, now, amount, holder: at, at, debt, limit: active }
    const outcome = applyAct(counter, act)
    each(act, outcome, (counter.state() ?? []) as Places, active)
  }
}

describe('on random traces with several holders, clocks that step and limits that change', () => {
  test('every outcome equals that of the model', () => {
    fc.assert(
      fc.property(scenarios, (scenario) => {
        let model: PlacesModel | undefined
        play(scenario, (act, outcome, _, active) => {
          model ??= new PlacesModel(active)
          const expected = model.apply(act)
          if (JSON.stringify(outcome) !== JSON.stringify(expected)) {
            expect(outcome).toEqual(expected)
          }
        })
      }),
      { numRuns: propertyRuns(1000) },
    )
  })

  test('a state has one record for each holder, none of them without places', () => {
    fc.assert(
      fc.property(scenarios, (scenario) => {
        play(scenario, (_act, _outcome, places) => {
          const found = placeHolders(places)
          expect(new Set(found.map(({ holder }) => holder)).size).toBe(found.length)
          expect(found.every((each) => each.places > 0)).toBe(true)
        })
      }),
      { numRuns: propertyRuns(200) },
    )
  })

  test('no take grants more than max in all, as long as nothing is charged', () => {
    fc.assert(
      fc.property(scenarios, ({ limits, ...scenario }) => {
        const uncharged = scenario.moments.filter(({ verb }) => verb !== 'charge')
        const [first] = limits
        if (first === undefined) return
        play({ ...scenario, limits: [first], moments: uncharged }, (_act, _outcome, places) => {
          const used = placeHolders(places).reduce((sum, each) => sum + each.places, 0)
          expect(used).toBeLessThanOrEqual(first.max)
        })
      }),
      { numRuns: propertyRuns(200) },
    )
  })
})

describe('a limit of concurrency', () => {
  const spec: LimitSpec = { algorithm: 'concurrency', max: 3, windowMs: 0 }

  test('has no window, a lease of 10 s, and the name of its algorithm', () => {
    expect(limit).toMatchObject({ name: 'concurrency', windowMs: 0, windowUs: 10 * SECOND })
    expect(limit).toMatchObject({ capacity: 3, max: 3 })
    expect(isConcurrency(limit)).toBe(true)
    expect(defineLimit({ ...spec, leaseMs: 60_000 }).windowUs).toBe(60 * SECOND)
  })

  test.each<[string, Partial<LimitSpec>, string]>([
    ['a window', { windowMs: 1000 }, 'no window with it'],
    ['a charge for refusals', { onRefusal: 'charge' }, 'no onRefusal with it'],
    ['a take that overdraws', { onRefusal: 'overdraw' }, 'no onRefusal with it'],
    [
      'a block',
      { block: { firstMs: 1000, factor: 1, maxMs: 1000, forgetMs: 1000 } },
      'no block with it',
    ],
    ['a burst', { burst: 3 }, 'burst with token-bucket or gcra only'],
    ['a queue', { queue: 3 }, 'queue with leaky-bucket only'],
    ['a wait', { waitMs: 3 }, 'wait with token-bucket or gcra only'],
    ['a start', { start: 'call' }, 'start with fixed-window only'],
    ['a lease that is too short', { leaseMs: 999 }, 'a duration from 1s to 5m'],
    ['a lease that is too long', { leaseMs: 300_001 }, 'a duration from 1s to 5m'],
    ['too many places', { max: 1_000_000_001 }, 'a whole number from 0 to 1000000000'],
  ])('does not accept %s', (_, more, accepted) => {
    expect(findLimitProblem({ ...spec, ...more })).toMatchObject({ accepted })
  })

  test('is the only one that accepts a lease', () => {
    const problem = findLimitProblem({ algorithm: 'gcra', max: 3, windowMs: 1000, leaseMs: 5000 })
    expect(problem).toMatchObject({ field: 'lease', accepted: 'lease with concurrency only' })
  })

  test('expires with the last of its records', () => {
    const places = concurrency.take(undefined, limit, 1, 5 * SECOND, undefined, 7).state
    expect(places && concurrency.expiresAt(places, limit)).toBe(15 * SECOND)
    expect(concurrency.expiresAt([], limit)).toBe(0)
  })
})

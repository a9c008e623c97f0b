import {
  type Call,
  type Decision,
  type DecisionExtras,
  type Plan,
  type PlannedTake,
  type Source,
} from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { createLimiter, memoryStore } from '../index.js'
import { user } from '../limiter.test-helper.js'
import { limiterOver, ScriptedStore, scripted, settled } from '../scripted-store.test-helper.js'
import { combineSpread } from '../shed/combine-spread.js'
import type { Groups } from '../store.js'
import { manualClock } from '../testing/index.js'
import { JoinedPlan, type KnownOutcome } from './joined-plan.js'
import { type CallPlanner, decidePlanned, type PlannedCalls } from './planned-calls.js'

/** Calls by the rules, joined into one plan; each keeps its decision. */
class JoinedCalls implements PlannedCalls {
  readonly decisions: Decision[] = []
  plans = 0
  readonly #calls: readonly Call[]
  readonly #change: (plan: Plan) => Plan
  readonly #isAlternative: boolean
  #joined = new JoinedPlan()

  constructor(
    calls: readonly Call[],
    { change = (plan: Plan) => plan, isAlternative = false } = {},
  ) {
    this.#calls = calls
    this.#change = change
    this.#isAlternative = isAlternative
  }

  plan(planner: CallPlanner): Plan {
    this.plans++
    this.#joined = new JoinedPlan()
    for (const call of this.#calls) {
      const plan = planner.plan(call, { canWait: false, gate: false })
      if (plan.groups !== undefined) {
        const role = { isAlternative: this.#isAlternative, isCounted: false }
        this.#joined.add(this.#change(plan), role)
      }
    }
    return this.#joined
  }

  compose(
    plan: Plan,
    outcomes: Groups<KnownOutcome>,
    source: Source,
    extras: DecisionExtras | undefined,
  ): Decision {
    this.#calls.forEach((_, i) => {
      const answer = this.#joined.answerOf(i, plan, outcomes)
      if (answer === undefined) return
      this.decisions[i] = combineSpread(answer.plan, answer.outcomes, source, extras)
    })
    return combineSpread(plan, outcomes, source, extras)
  }
}

const window = (max: number, more: object = {}) => ({
  algorithm: 'fixed-window',
  max,
  window: '1h',
  ...more,
})
const RULES = [
  { id: 'per-user', by: ['user'], limits: [window(2)], posture: 'closed' },
  { id: 'per-key', by: ['key'], limits: [window(5)], posture: 'closed' },
]
const key = (name: string, cost?: number) => ({ attributes: { key: name }, cost })
const briefly = ({ allowed, remaining }: Decision) => [allowed, remaining]

function inMemory(rules: object[] = RULES) {
  const clock = manualClock()
  return createLimiter({ rules, clock, store: memoryStore({ clock }) })
}

async function decide(limiter: ReturnType<typeof inMemory>, calls: JoinedCalls, options = {}) {
  return decidePlanned(limiter, calls, options)
}

describe('decidePlanned', () => {
  test('calls are charged all or none, and each has a decision of its own', async () => {
    const limiter = inMemory()
    for (const expected of [
      [
        [true, 1],
        [true, 4],
      ],
      [
        [true, 0],
        [true, 3],
      ],
      [
        [false, 0],
        [true, 3],
      ],
    ]) {
      const calls = new JoinedCalls([user('u1'), key('k1')])
      const whole = await decide(limiter, calls)
      expect(calls.decisions.map(briefly)).toEqual(expected)
      expect(whole.allowed).toBe(expected.every(([allowed]) => allowed))
    }
    expect(await limiter.check(key('k1'))).toMatchObject({ allowed: true, remaining: 2 })
  })

  test('a counter that several calls take from is charged once for all, and each sees its turn', async () => {
    const limiter = inMemory()
    const three = new JoinedCalls([key('k1', 1), key('k1', 2), user('u1')])
    await decide(limiter, three)
    expect(three.decisions.map(briefly)).toEqual([
      [true, 4],
      [true, 2],
      [true, 1],
    ])
    const over = new JoinedCalls([key('k1', 2), key('k1', 1)])
    await decide(limiter, over)
    expect(over.decisions.map(briefly)).toEqual([
      [true, 2],
      [false, 2],
    ])
    expect(await limiter.check(key('k1', 2))).toMatchObject({ allowed: true, remaining: 0 })
  })

  test('calls without limits need no store, and no rules are an error of those who need them', async () => {
    const store = new ScriptedStore()
    const limiter = createLimiter({ rules: undefined, store, clock: store.clock })
    const nothing: PlannedCalls = {
      plan: () => ({ matched: [], groups: [[]], shadows: [] }),
      compose: (plan, outcomes, source) => combineSpread(plan, outcomes, source),
    }
    expect(decidePlanned(limiter, nothing, {})).toMatchObject({ allowed: true })
    expect(store.requests).toHaveLength(0)
    const calls = new JoinedCalls([user('u1')])
    expect(() => decidePlanned(limiter, calls, {})).toThrow('There are no rules yet')
  })

  test('calls are sent to the store in one take, with their own deadline and cap', async () => {
    const { limiter, store } = await scripted(RULES)
    const calls = new JoinedCalls([user('u1'), key('k1'), key('k2')])
    await decidePlanned(limiter, calls, { deadlineMs: 7, capMs: 3 })
    expect(store.requests).toHaveLength(1)
    expect(store.requests[0]?.options).toMatchObject({ deadlineMs: 7, capMs: 3 })
    expect(store.requests[0]?.groups.map((takes) => takes.length)).toEqual([3])
  })

  test('a deadline of a rule holds if it is shorter', async () => {
    const rules = [{ ...RULES[0], deadline: '4ms' }]
    const { limiter, store } = await scripted(rules)
    await decidePlanned(limiter, new JoinedCalls([user('u1')]), { deadlineMs: 7 })
    await decidePlanned(limiter, new JoinedCalls([user('u1')]), { deadlineMs: 3 })
    expect(store.requests.map(({ options }) => options?.deadlineMs)).toEqual([4, 3])
  })

  test('calls wait for the key that names counters, and are planned again with it', async () => {
    let arrive: (secret: Uint8Array) => void = () => {}
    const secret = new Promise<Uint8Array>((resolve) => (arrive = resolve))
    const store = new ScriptedStore({ secret })
    const limiter = limiterOver(store, RULES)
    const calls = new JoinedCalls([user('u1'), key('k1')])
    const decided = decidePlanned(limiter, calls, {})
    expect(store.requests).toHaveLength(0)
    arrive(Uint8Array.from({ length: 16 }, () => 7))
    await decided
    expect(calls.plans).toBe(2)
    expect(calls.decisions.map(briefly)).toEqual([
      [true, 1],
      [true, 4],
    ])
    const [first] = store.requests[0]?.groups[0] ?? []
    await limiter.check(user('u1'))
    expect(store.requests[1]?.groups[0]?.[0]?.key).toEqual(first?.key)
  })

  test('a refusal that is remembered costs no trip, and lists only the limits that refuse', async () => {
    const { limiter, store } = await scripted(RULES, { denyCacheMs: 1000 })
    for (let i = 0; i < 3; i++) await decide(limiter, new JoinedCalls([user('u1'), key('k1')]))
    expect(store.requests).toHaveLength(3)
    const calls = new JoinedCalls([user('u1'), key('k1')])
    const whole = await decide(limiter, calls)
    expect(store.requests).toHaveLength(3)
    expect(whole).toMatchObject({ allowed: false, source: 'deny-cache' })
    expect(calls.decisions.map(({ allowed, rule }) => [allowed, rule])).toEqual([
      [false, 'per-user'],
      [true, null],
    ])
  })

  test('limits that nodes count decide first, and what they granted is put back', async () => {
    const rules = [
      { ...RULES[0], coordination: 'node' },
      { ...RULES[1], coordination: 'leased' },
    ]
    const { limiter, store } = await scripted(rules)
    for (const expected of [
      [
        [true, 1],
        [true, 4],
      ],
      [
        [true, 0],
        [true, 3],
      ],
    ]) {
      const calls = new JoinedCalls([user('u1'), key('k1')])
      await decide(limiter, calls)
      expect(calls.decisions.map(briefly)).toEqual(expected)
    }
    const before = store.requests.length
    const calls = new JoinedCalls([user('u1'), key('k1')])
    expect(await decide(limiter, calls)).toMatchObject({ allowed: false, rule: 'per-user' })
    expect(calls.decisions.map(({ allowed, rule }) => [allowed, rule])).toEqual([
      [false, 'per-user'],
      [true, null],
    ])
    expect(store.requests).toHaveLength(before)
    const last = new JoinedCalls([user('u2'), key('k1', 9)])
    expect(await decide(limiter, last)).toMatchObject({ allowed: false, rule: 'per-key' })
    // The unit of the second user was put back: both of its limit are left.
    expect(await limiter.check(user('u2'))).toMatchObject({ allowed: true, remaining: 1 })
  })

  test('many calls with many counters are joined as few are', async () => {
    const limiter = inMemory()
    const names = Array.from({ length: 100 }, (_, i) => key(`k${i % 60}`))
    const calls = new JoinedCalls(names)
    await decide(limiter, calls)
    expect(calls.decisions.map(({ remaining }) => remaining)).toEqual(
      names.map((_, i) => (i < 60 ? 4 : 3)),
    )
  })

  test('a store that does not answer: each rule decides by its posture', async () => {
    const rules = [
      { ...RULES[0], posture: 'open' },
      { ...RULES[1], posture: 'closed' },
    ]
    const { limiter, store } = await scripted(rules)
    store.all('not-run')
    const calls = new JoinedCalls([user('u1'), key('k1')])
    const whole = await decide(limiter, calls)
    expect(whole).toMatchObject({ allowed: false, reason: 'posture' })
    expect(calls.decisions.map(({ allowed }) => allowed)).toEqual([true, false])
  })

  test('what a late answer granted to calls that were refused is given back', async () => {
    const { limiter, store } = await scripted(RULES)
    store.all('ran')
    await decide(limiter, new JoinedCalls([user('u1'), key('k1')]))
    store.comeLate()
    await settled()
    expect(store.gives).toHaveLength(2)
  })

  test('units that are given back are announced: no node remembers a refusal of their counter', async () => {
    const { limiter, store } = await scripted(RULES, { denyCacheMs: 1000 })
    for (let i = 0; i < 3; i++) await limiter.check(user('u1'))
    const returned = (take: PlannedTake) => ({ ...take, amount: -1 })
    const change = ({ matched, groups, shadows }: Plan) => ({
      matched,
      groups: groups.map((takes) => takes.map(returned)),
      shadows,
    })
    await decide(limiter, new JoinedCalls([user('u1')], { change }))
    expect(await limiter.check(user('u1'))).toMatchObject({ allowed: true, source: 'store' })
    expect(store.requests).toHaveLength(5)
  })
})

describe('alternatives', () => {
  const alternatives = () => new JoinedCalls([user('u1'), key('k1')], { isAlternative: true })

  test('each alternative is charged by itself', async () => {
    const limiter = inMemory()
    for (const expected of [
      [
        [true, 1],
        [true, 4],
      ],
      [
        [true, 0],
        [true, 3],
      ],
      [
        [false, 0],
        [true, 2],
      ],
    ]) {
      const calls = alternatives()
      await decide(limiter, calls)
      expect(calls.decisions.map(briefly)).toEqual(expected)
    }
  })

  test('calls whose alternatives are all known to refuse cost no trip', async () => {
    const { limiter, store } = await scripted(RULES, { denyCacheMs: 1000 })
    for (let i = 0; i < 6; i++) await decide(limiter, alternatives())
    const before = store.requests.length
    const calls = alternatives()
    expect(await decide(limiter, calls)).toMatchObject({ allowed: false, source: 'deny-cache' })
    expect(calls.decisions.map(({ allowed }) => allowed)).toEqual([false, false])
    expect(store.requests).toHaveLength(before)
  })

  test('without the store each alternative is decided by its posture', async () => {
    const rules = [
      { ...RULES[0], posture: 'closed' },
      { ...RULES[1], posture: 'local' },
    ]
    const { limiter, store } = await scripted(rules)
    store.all('not-run')
    const seen: (readonly boolean[])[] = []
    for (let i = 0; i < 6; i++) {
      const calls = alternatives()
      await decide(limiter, calls)
      seen.push(calls.decisions.map(({ allowed }) => allowed))
    }
    expect(seen.slice(0, 5)).toEqual(Array.from({ length: 5 }, () => [false, true]))
    expect(seen[5]).toEqual([false, false])
    store.recover()
    await settled()
    // The five units that were spent here are charged afterwards.
    expect(store.charges.reduce((sum, { amount }) => sum + amount, 0)).toBe(5)
  })

  test('what a late answer granted to an alternative that was refused is given back', async () => {
    const { limiter, store } = await scripted(RULES)
    store.script.fate = (group) => (group === 1 ? 'ran' : 'answer')
    const calls = alternatives()
    await decide(limiter, calls)
    expect(calls.decisions.map(({ allowed }) => allowed)).toEqual([false, true])
    store.comeLate()
    await settled()
    expect(store.gives).toHaveLength(1)
  })
})

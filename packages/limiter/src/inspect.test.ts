import { describe, expect, test } from 'vitest'
import { createLimiter, memoryStore, type Store } from './index.js'
import { manualClock } from './testing/index.js'

const RULES = [
  {
    id: 'orders',
    match: { path: '/v1/orders', method: 'GET' },
    by: ['user'],
    limits: ['10/second', { algorithm: 'fixed-window', max: 100, window: '1s', name: 'window' }],
    tiers: { plan: { pro: ['20/second'], partner: [] } },
    candidate: { limits: ['5/second'], tiers: { plan: { pro: ['6/second'] } } },
    overrides: [
      { caller: { user: 'vip' }, limits: ['1000/second'], until: '2026-01-01T00:00:10Z' },
    ],
  },
  { id: 'resting', by: ['ip', 'user'], limits: ['3/second'], mode: 'off' },
  { id: 'everybody', by: [], limits: ['900/minute'], mode: 'shadow' },
]

function setUp(store?: Store) {
  const clock = manualClock()
  const limiter = createLimiter({
    rules: RULES,
    clock,
    store: store ?? memoryStore({ clock }),
    secret: new Uint8Array(16),
  })
  return { clock, limiter }
}
const GET = { method: 'GET', path: '/v1/orders' }

test('a counter is shown as the memory store has it', async () => {
  const { limiter, clock } = setUp()
  limiter.checkSync({ attributes: { ...GET, user: 'u1' }, cost: 3 })
  const inspected = await limiter.inspect('orders', { attributes: { user: 'u1' } })
  const hash = limiter.callers({ attributes: { ...GET, user: 'u1' } })[0]?.hash
  expect(inspected).toEqual({
    rule: 'orders',
    caller: { user: 'u1' },
    hash,
    counters: [
      {
        limit: 'token-bucket-1s',
        where: 'limits',
        key: expect.stringMatching(/^[0-9a-f]{16}$/),
        partition: Math.floor(Number.parseInt(hash?.slice(0, 2) ?? '', 16) / 2),
        node: null,
        state: { at: clock.now(), used: 3, part: 0 },
        ttlMs: null,
        bytes: 40,
        remaining: 7,
        resetAfterMs: 300,
      },
      expect.objectContaining({ limit: 'window', state: { start: clock.now(), count: 3 } }),
      expect.objectContaining({ where: 'candidate.limits', remaining: 2 }),
    ],
  })
  const keys = inspected.counters.map(({ key }) => key)
  expect(new Set(keys).size).toBe(3)
})

test('a caller that never came has no counters and its whole budget', async () => {
  const { limiter } = setUp()
  const { counters } = await limiter.inspect('orders', { attributes: { user: 'new' } })
  expect(counters[0]).toMatchObject({ state: null, bytes: null, remaining: 10, resetAfterMs: 0 })
})

test('the block beside a limit is a counter of its own, with its begin, its end and its number', async () => {
  const clock = manualClock(1_767_225_600_000_000)
  const block = { first: '1m', factor: 2, max: '1h', forget: '1d' }
  const limits = [{ algorithm: 'fixed-window', max: 1, window: '10s', name: 'tries', block }]
  const rules = [{ id: 'login', by: ['user'], limits }]
  const limiter = createLimiter({ rules, clock, store: memoryStore({ clock }) })
  const call = { attributes: { user: 'u1' } }
  const inspected = async () => (await limiter.inspect('login', call)).counters
  expect((await inspected())[1]).toMatchObject({
    state: null,
    block: { sinceMs: null, untilMs: null, times: 0 },
  })
  limiter.checkSync({ ...call })
  limiter.checkSync({ ...call })
  clock.advance(60_000)
  limiter.checkSync({ ...call })
  limiter.checkSync({ ...call })
  clock.advance(1000)
  const [limit, second] = await inspected()
  expect(limit).toMatchObject({ limit: 'tries', state: { count: 1 } })
  expect(limit).not.toHaveProperty('block')
  const sinceMs = 1_767_225_660_000
  expect(second).toMatchObject({
    limit: 'tries',
    where: 'limits',
    remaining: 0,
    resetAfterMs: 119_000,
    block: { sinceMs, untilMs: sinceMs + 120_000, times: 2 },
  })
  expect(second?.key).not.toBe(limit?.key)
  clock.advance(120_000)
  expect((await inspected())[1]).toMatchObject({ resetAfterMs: 0, block: { times: 2 } })
})

test('inspect charges nothing', async () => {
  const { limiter } = setUp()
  const call = { attributes: { ...GET, user: 'u1' } }
  limiter.checkSync(call)
  const first = await limiter.inspect('orders', call)
  expect(await limiter.inspect('orders', call)).toEqual(first)
  expect(first.counters[0]?.remaining).toBe(9)
})

describe('inspect shows the limits that apply to the caller', () => {
  const places = async (attributes: Record<string, string>, afterMs = 0) => {
    const { limiter, clock } = setUp()
    clock.advance(afterMs)
    const { counters } = await limiter.inspect('orders', { attributes })
    return counters.map(({ where, remaining }) => `${where} ${remaining}`)
  }

  test.each<[string, Record<string, string>, readonly string[]]>([
    ['its own', { user: 'u1', plan: 'free' }, ['limits 10', 'limits 100', 'candidate.limits 5']],
    [
      'its tier, and that of the candidate',
      { user: 'u1', plan: 'pro' },
      ['tiers.plan.pro 20', 'candidate.tiers.plan.pro 6'],
    ],
    ['a tier without limit', { user: 'u1', plan: 'partner' }, ['candidate.limits 5']],
    ['its override, whatever its tier', { user: 'vip', plan: 'pro' }, ['override 1000']],
  ])('%s', async (_, attributes, expected) => {
    expect(await places(attributes)).toEqual(expected)
  })

  test('an override that has ended no longer applies', async () => {
    expect(await places({ user: 'vip' }, 10_000)).toContain('limits 10')
  })
})

test('a rule that is off, or does not match, is still shown', async () => {
  const { limiter } = setUp()
  const attributes = { user: 'u1', ip: '2001:db8::1', method: 'PUT', path: '//not canonical' }
  expect(await limiter.inspect('resting', { attributes })).toMatchObject({
    caller: { ip: '2001:db8::/64', user: 'u1' },
    counters: [{ where: 'limits', remaining: 3 }],
  })
  expect((await limiter.inspect('orders', { attributes })).counters).toHaveLength(3)
  expect((await limiter.inspect('everybody', { attributes: {} })).caller).toEqual({})
})

test('an unknown rule and a missing attribute are errors that name what is accepted', async () => {
  const { limiter } = setUp()
  const refused = async (rule: string, attributes: Record<string, string>) =>
    limiter.inspect(rule, { attributes }).catch((error: unknown) => error)
  expect(await refused('order', { user: 'u1' })).toMatchObject({
    code: 'RULE_UNKNOWN',
    message:
      'rule: found "order"; accepted: the id of a rule in force, such as orders, resting, everybody',
  })
  expect(await refused('resting', { user: 'u1' })).toMatchObject({
    code: 'CALL_INVALID',
    message:
      'attributes: found none of the name ip; accepted: a value for each attribute that the rule counts by: ip, user',
  })
  expect(await refused('orders', { user: 'x'.repeat(10_000) })).toMatchObject({
    code: 'CALL_ATTRIBUTE_TOO_LONG',
  })
})

test('a log is summarized by what it holds', async () => {
  const clock = manualClock()
  const limits = [{ algorithm: 'sliding-window-log', max: 10, window: '1m' }]
  const limiter = createLimiter({ rules: [{ id: 'login', by: ['user'], limits }], clock })
  const call = { attributes: { user: 'u1' } }
  const startUs = clock.now()
  limiter.checkSync({ ...call, cost: 2 })
  clock.advance(5)
  limiter.checkSync(call)
  expect((await limiter.inspect('login', call)).counters).toMatchObject([
    { state: { units: 3, instants: 2, oldest: startUs, newest: startUs + 5000 }, bytes: 72 },
  ])
})

test('a counter of another algorithm under the same name counts as absent', async () => {
  const rules = (algorithm: string) => [
    { id: 'a', by: ['user'], limits: [{ algorithm, max: 5, window: '1m', name: 'all' }] },
  ]
  const limiter = createLimiter({ rules: rules('token-bucket'), clock: manualClock() })
  const call = { attributes: { user: 'u1' } }
  limiter.checkSync(call)
  const before = (await limiter.inspect('a', call)).counters[0]
  limiter.setRules(rules('gcra'))
  const after = (await limiter.inspect('a', call)).counters[0]
  expect(before).toMatchObject({ state: { used: 1 }, bytes: 40 })
  expect(after).toMatchObject({ key: before?.key, state: null, bytes: 40 })
})

test('callers lists the caller of a call in every rule that matches', () => {
  const { limiter } = setUp()
  const callers = limiter.callers({ attributes: { ...GET, user: 'u1', ip: '203.0.113.7' } })
  expect(callers).toEqual([
    { rule: 'orders', caller: { user: 'u1' }, hash: expect.stringMatching(/^[0-9a-f]{16}$/) },
    { rule: 'everybody', caller: {}, hash: expect.stringMatching(/^[0-9a-f]{16}$/) },
  ])
})

test('the hash is the one that a refusal is logged with', () => {
  const { limiter } = setUp()
  const call = { attributes: { ...GET, user: 'u1' }, cost: 11 }
  const bound = limiter.checkSync(call).bound()
  expect(bound?.caller).toBe(limiter.callers(call)[0]?.hash)
})

test('a store without an inspector is inspected by peek alone', async () => {
  const clock = manualClock()
  const { inspector: _, ...store } = memoryStore({ clock })
  const { limiter } = setUp(store)
  const { counters } = await limiter.inspect('orders', { attributes: { user: 'u1' } })
  expect(counters[0]).toMatchObject({ key: expect.stringMatching(/^[0-9a-f]{16}$/), bytes: null })
})

test('inspect reports a failing store and a closed limiter as such', async () => {
  const store = memoryStore()
  const { limiter } = setUp({ ...store, peek: async () => Promise.reject(new Error('gone')) })
  const call = { attributes: { user: 'u1' } }
  await expect(limiter.inspect('orders', call)).rejects.toMatchObject({ code: 'STORE_FAILED' })
  await limiter.close()
  await expect(limiter.inspect('orders', call)).rejects.toMatchObject({ code: 'LIMITER_CLOSED' })
  expect(() => limiter.callers(call)).toThrow('closed')
})

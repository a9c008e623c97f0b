import { type Call, type Decision, shedDecision, UNMATCHED } from '@sluice/core'
import { createLimiter } from '@sluice/limiter'
import fc from 'fast-check'
import { afterEach, expect, test, vi } from 'vitest'
import { callWith } from '../../lib/normalized-call.test-helper.js'
import { createMemoryLog } from './memory-log.test-helper.js'
import { createRefusalLog, type RefusalLogOptions } from './refusal-log.js'
import { propertyRuns } from '../../../../../tools/property-runs.js'

const START = Date.UTC(2026, 0, 1)

function setUp(options: Partial<RefusalLogOptions> = {}) {
  let now = START
  const clock = { now: () => now }
  const memory = createMemoryLog('info', clock)
  const refusals = createRefusalLog({
    log: memory.log,
    clock,
    callers: 'hash',
    sweepMs: 0,
    ...options,
  })
  const advance = (ms: number) => {
    now += ms
  }
  return { memory, lines: memory.lines, refusals, advance }
}

const CALL: Call = { attributes: { user: 'u1', method: 'GET', path: '/v1/orders?token=abc' } }

function refusalOf(caller: string, rule = 'per-user'): Decision {
  return {
    ...UNMATCHED,
    allowed: false,
    reason: 'over',
    rule,
    limitName: 'hourly',
    retryAfterMs: 1500,
    bound: () => ({ rule, by: ['user'], caller, call: callWith() }),
  }
}

/** The number of refusals that the lines report. */
function accountedFor(lines: readonly Record<string, unknown>[]): number {
  let total = 0
  for (const { msg, rest } of lines) total += Number(rest) + (msg === 'refused' ? 1 : 0)
  return total
}

test('a refusal is logged with the caller, the rule and the retry time', () => {
  const { refusals, lines } = setUp()
  refusals.logRefusal(refusalOf('a1b2'), CALL, 'gateway')
  expect(lines).toHaveLength(1)
  expect(lines[0]).toMatchObject({
    level: 'info',
    msg: 'refused',
    rule: 'per-user',
    limit: 'hourly',
    caller: 'a1b2',
    reason: 'over',
    retryAfterMs: 1500,
    source: 'store',
    way: 'gateway',
    method: 'GET',
    path: '/v1/orders',
    rest: 0,
  })
  expect(lines[0]).not.toHaveProperty('staleMs')
})

test('shed calls are logged with their priority, those of a busy process under no rule', () => {
  const { refusals, lines } = setUp()
  refusals.logRefusal({ ...refusalOf('a'), reason: 'shed', priority: 'reads' }, CALL, 'gateway')
  const busy = shedDecision('reads', 2000)
  refusals.logRefusal(busy, CALL, 'gateway')
  refusals.logRefusal(busy, CALL, 'gateway')
  expect(lines).toMatchObject([
    { rule: 'per-user', caller: 'a', reason: 'shed', priority: 'reads' },
    { rule: '', caller: '', reason: 'shed', priority: 'reads', retryAfterMs: 2000 },
  ])
})

test('a refusal made without the store is logged with its source and age', () => {
  const { refusals, lines } = setUp()
  refusals.logRefusal({ ...refusalOf('a'), source: 'lease', staleMs: 12 }, CALL, 'gateway')
  refusals.logRefusal({ ...refusalOf('b'), source: 'local', staleMs: 0 }, CALL, 'gateway')
  expect(lines).toMatchObject([
    { msg: 'refused', source: 'lease', staleMs: 12 },
    { msg: 'refused', source: 'local', staleMs: 0 },
  ])
})

test('a line names the caller by the hash that the rule counts by', () => {
  const { refusals, lines } = setUp()
  const limiter = createLimiter({ rules: 'rules: [{ id: r, by: [user], limits: [1/hour] }]' })
  limiter.checkSync(CALL)
  const decision = limiter.checkSync(CALL)
  refusals.logRefusal(decision, CALL, 'api')
  expect(lines[0]).toMatchObject({ rule: 'r', caller: decision.bound()?.caller })
  expect(lines[0]?.['caller']).toMatch(/^[0-9a-f]{16}$/)
})

test('the rest of a second is reported with the next line of that caller', () => {
  const { refusals, lines, advance } = setUp()
  for (let i = 0; i < 100; i++) refusals.logRefusal(refusalOf('a'), CALL, 'api')
  refusals.logRefusal(refusalOf('b'), CALL, 'api')
  advance(1000)
  refusals.logRefusal(refusalOf('a'), CALL, 'api')
  expect(lines.map(({ caller, rest }) => [caller, rest])).toEqual([
    ['a', 0],
    ['b', 0],
    ['a', 99],
  ])
})

test('the rest of a second is reported when it is over, even without further refusals', () => {
  const { refusals, lines, advance } = setUp()
  for (let i = 0; i < 8; i++) refusals.logRefusal(refusalOf('a'), CALL, 'api')
  refusals.tick()
  expect(lines).toHaveLength(1)
  advance(1000)
  refusals.tick()
  expect(lines).toHaveLength(2)
  expect(lines[1]).toMatchObject({
    msg: 'refused again',
    rule: 'per-user',
    limit: 'hourly',
    caller: 'a',
    rest: 7,
  })
  advance(1000)
  refusals.tick()
  expect(lines).toHaveLength(2)
})

test('each rule gets its own line', () => {
  const { refusals, lines } = setUp()
  refusals.logRefusal(refusalOf('a', 'one'), CALL, 'api')
  refusals.logRefusal(refusalOf('a', 'two'), CALL, 'api')
  expect(lines.map(({ rule }) => rule)).toEqual(['one', 'two'])
})

test('there are at most 1,000 lines a second, and the others are counted', () => {
  const { refusals, lines, advance } = setUp()
  for (let i = 0; i < 5000; i++) refusals.logRefusal(refusalOf(`c${i}`), CALL, 'api')
  expect(lines).toHaveLength(1000)
  expect(refusals.dropped()).toBe(4000)
  advance(1000)
  refusals.logRefusal(refusalOf('late'), CALL, 'api')
  expect(lines).toHaveLength(1001)
})

test('a known caller beyond the line bound of a second is logged later', () => {
  const { refusals, lines, advance } = setUp()
  refusals.logRefusal(refusalOf('a'), CALL, 'api')
  advance(1000)
  for (let i = 0; i < 1000; i++) refusals.logRefusal(refusalOf(`c${i}`), CALL, 'api')
  refusals.logRefusal(refusalOf('a'), CALL, 'api')
  refusals.tick()
  expect(lines).toHaveLength(1001)
  advance(1000)
  refusals.tick()
  expect(lines.at(-1)).toMatchObject({ msg: 'refused again', caller: 'a', rest: 1 })
  expect(refusals.dropped()).toBe(0)
})

test('callers without further refusals are forgotten', () => {
  const { refusals, advance } = setUp()
  // More callers than are tracked at once, so one that stayed would displace a later one.
  for (let second = 0; second < 20; second++) {
    for (let i = 0; i < 1000; i++) refusals.logRefusal(refusalOf(`c${second}-${i}`), CALL, 'api')
    advance(1000)
    refusals.tick()
  }
  expect(refusals.dropped()).toBe(0)
})

test('refusals are counted although the log rejects lines', () => {
  const { memory, refusals, lines, advance } = setUp()
  for (let i = 0; i < 10; i++) refusals.logRefusal(refusalOf('a'), CALL, 'api')
  memory.isStuck = true
  advance(1000)
  refusals.logRefusal(refusalOf('a'), CALL, 'api')
  expect(accountedFor(lines)).toBe(1)
  expect(refusals.dropped()).toBe(10)
  expect(memory.log.dropped()).toBe(0)
})

test('in clear, a line has the attributes that the caller is counted by', () => {
  const { refusals, lines } = setUp({ callers: 'clear' })
  const attributes = { ip: '203.0.113.7', user: 'u\n1', plan: 'pro' }
  const decision: Decision = {
    ...refusalOf('a1'),
    bound: () => ({ rule: 'r', by: ['ip', 'user'], caller: 'a1', call: callWith(attributes) }),
  }
  refusals.logRefusal(decision, { attributes }, 'api')
  expect(lines[0]?.['caller']).toEqual({ ip: '203.0.113.7', user: 'u\\u000a1' })
})

test('in clear, a secret is shown only in its masked form', () => {
  const { refusals, lines } = setUp({ callers: 'clear', secretAttributes: ['api_key'] })
  const refuse = (api_key: string, caller: string) =>
    refusals.logRefusal(
      {
        ...refusalOf(caller),
        bound: () => ({ rule: 'r', by: ['api_key'], caller, call: callWith({ api_key }) }),
      },
      { attributes: { api_key } },
      'api',
    )
  refuse('0123456789abcdef..wxyz', 'hash')
  refuse('sk_live_abcdefgh', 'plain')
  expect(lines.map(({ caller }) => caller)).toEqual([
    { api_key: '0123456789abcdef..wxyz' },
    { api_key: '(secret)' },
  ])
})

test('texts of a caller are cut and cannot break a line', () => {
  const { refusals, lines } = setUp()
  const attributes = { method: 'G\nET', path: `/${'a'.repeat(5000)}` }
  refusals.logRefusal(refusalOf('a'), { attributes }, 'api')
  expect(lines[0]?.['method']).toBe('G\\u000aET')
  expect(String(lines[0]?.['path'])).toHaveLength(256)
})

test('a refusal without a binding caller is logged too', () => {
  const { refusals, lines } = setUp()
  const nobody: Decision = { ...refusalOf('a'), rule: null, bound: () => undefined }
  refusals.logRefusal(nobody, { attributes: {} }, 'api')
  expect(lines[0]).toMatchObject({ rule: '', caller: '', method: '', path: '' })
})

test('every refusal is a line, in the rest of a line, or dropped', () => {
  const steps = fc.array(
    fc.oneof(
      {
        weight: 8,
        arbitrary: fc.record({ caller: fc.nat(5), rule: fc.nat(2), times: fc.nat(20) }),
      },
      { weight: 2, arbitrary: fc.record({ crowd: fc.nat(2500) }) },
      { weight: 3, arbitrary: fc.record({ advance: fc.integer({ min: -1500, max: 2500 }) }) },
      { weight: 2, arbitrary: fc.constant('tick' as const) },
      { weight: 1, arbitrary: fc.constant('stuck' as const) },
      { weight: 1, arbitrary: fc.constant('flush' as const) },
    ),
    { maxLength: 60 },
  )
  fc.assert(
    fc.property(steps, (list) => {
      const { memory, refusals, lines, advance } = setUp()
      let sent = 0
      const refuse = (caller: string, rule: string) => {
        refusals.logRefusal(refusalOf(caller, rule), CALL, 'api')
        sent++
      }
      list.forEach((step, index) => {
        if (step === 'tick') refusals.tick()
        else if (step === 'flush') refusals.flush()
        else if (step === 'stuck') memory.isStuck = !memory.isStuck
        else if ('advance' in step) advance(step.advance)
        else if ('crowd' in step) {
          for (let i = 0; i < step.crowd; i++) refuse(`crowd-${index}-${i}`, 'crowd')
        } else for (let i = 0; i < step.times; i++) refuse(`c${step.caller}`, `r${step.rule}`)
      })
      refusals.flush()
      expect(accountedFor(lines) + refusals.dropped()).toBe(sent)
    }),
    { numRuns: propertyRuns(200) },
  )
})

test('a second has at most 1,000 lines, and one of a caller and rule', () => {
  const steps = fc.array(
    fc.record({ caller: fc.nat(3), crowd: fc.nat(800), advance: fc.nat(700), tick: fc.boolean() }),
    { maxLength: 40 },
  )
  fc.assert(
    fc.property(steps, (list) => {
      const { refusals, lines, advance } = setUp()
      list.forEach(({ caller, crowd, advance: ms, tick }, index) => {
        for (let i = 0; i < crowd; i++) refusals.logRefusal(refusalOf(`${index}-${i}`), CALL, 'api')
        refusals.logRefusal(refusalOf(`c${caller}`), CALL, 'api')
        advance(ms)
        if (tick) refusals.tick()
      })
      const perSecond = new Map<string, number>()
      const add = (key: string) => perSecond.set(key, (perSecond.get(key) ?? 0) + 1)
      for (const { time, msg, caller } of lines) {
        const second = String(time).slice(0, 19)
        add(second)
        if (msg === 'refused') add(`${second} ${String(caller)}`)
      }
      for (const [key, count] of perSecond) {
        expect(count, key).toBeLessThanOrEqual(key.includes(' ') ? 1 : 1000)
      }
    }),
    { numRuns: propertyRuns(50) },
  )
})

afterEach(() => {
  vi.useRealTimers()
})

test('a timer reports the seconds that are over, until the log is closed', () => {
  vi.useFakeTimers({ now: START })
  const memory = createMemoryLog('info')
  const clock = { now: () => Date.now() }
  const refusals = createRefusalLog({ log: memory.log, clock, callers: 'hash' })
  for (let i = 0; i < 3; i++) refusals.logRefusal(refusalOf('a'), CALL, 'api')
  vi.advanceTimersByTime(1000)
  expect(memory.lines.map(({ rest }) => rest)).toEqual([0, 2])
  for (let i = 0; i < 3; i++) refusals.logRefusal(refusalOf('a'), CALL, 'api')
  refusals.close()
  expect(accountedFor(memory.lines)).toBe(6)
  expect(vi.getTimerCount()).toBe(0)
})

test('a line has the matched route, in clear also as the attribute that the rule counts by', () => {
  const { refusals, lines } = setUp({ callers: 'clear' })
  const call = callWith(CALL.attributes, { route: 'GET /v1/orders' })
  const bound = { rule: 'per-route', by: ['route'], caller: 'a1', call }
  refusals.logRefusal({ ...refusalOf('a1'), bound: () => bound }, CALL, 'api')
  expect(lines[0]).toMatchObject({
    caller: { route: 'GET /v1/orders' },
    method: 'GET',
    path: '/v1/orders',
    route: 'GET /v1/orders',
  })
  refusals.logRefusal(refusalOf('a2'), CALL, 'api')
  expect(lines[1]).not.toHaveProperty('route')
})

test('in clear, an address is shown as the network that the rule counts by', () => {
  const { refusals, lines } = setUp({ callers: 'clear' })
  const call = callWith({ ip: '2001:db8::1' }, { ip: '2001:db8::/64' })
  const bound = { rule: 'per-address', by: ['ip'], caller: 'a1', call }
  refusals.logRefusal({ ...refusalOf('a1'), bound: () => bound }, CALL, 'api')
  expect(lines[0]?.['caller']).toEqual({ ip: '2001:db8::/64' })
})

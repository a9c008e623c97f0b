/** Log lines of would-be refusals, of shadow rules and candidates. */
import { type Call, type Decision, type ShadowRefusal, UNMATCHED } from '@sluice/core'
import { createLimiter } from '@sluice/limiter'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { LineSink } from './line-sink.js'
import { createLogger } from './logger.js'
import { callWith } from '../../lib/normalized-call.test-helper.js'
import { createMemoryLog } from './memory-log.test-helper.js'
import { createRefusalLog, type RefusalLogOptions } from './refusal-log.js'
import { propertyRuns } from '../../../../../tools/property-runs.js'

const START = Date.UTC(2026, 0, 1)
const CALL: Call = { attributes: { user: 'u1', method: 'GET', path: '/v1/orders?token=abc' } }

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
  /** Lets a second end. */
  const endSecond = () => {
    advance(1000)
    refusals.tick()
  }
  return { memory, lines: memory.lines, refusals, advance, endSecond }
}

function wouldBe(caller: number, rule = 'per-user', mode: ShadowRefusal['mode'] = 'shadow') {
  const refusal: ShadowRefusal = {
    rule,
    mode,
    by: ['user'],
    caller: { hi: 0, lo: caller },
    call: callWith(),
    limitName: 'hourly',
    retryAfterMs: 1500,
    reason: 'over',
  }
  return { ...UNMATCHED, shadow: [rule], shadowRefusals: () => [refusal] } satisfies Decision
}

function refusalOf(caller: string): Decision {
  const rule = 'enforced'
  const bound = () => ({ rule, by: ['user'], caller, call: callWith() })
  return { ...UNMATCHED, allowed: false, reason: 'over', rule, retryAfterMs: 1, bound }
}

const isShadow = ({ msg }: Readonly<Record<string, unknown>>) => msg === 'would have been refused'

test('a would-be refusal is logged with its mode, the caller, the rule and the retry time', () => {
  const { refusals, lines, endSecond } = setUp()
  const limiter = createLimiter({
    rules: `
      rules:
        - { id: per-user, by: [user], limits: [9/hour], candidate: { limits: [{ max: 1, window: 1h, name: trial }] } }
        - { id: tried, by: [user], limits: [1/hour], mode: shadow }
    `,
  })
  limiter.checkSync(CALL)
  const decision = limiter.checkSync(CALL)
  refusals.logShadowRefusal(decision, CALL, 'gateway')
  endSecond()
  const common = { level: 'info', msg: 'would have been refused', reason: 'over', source: 'store' }
  const route = { way: 'gateway', method: 'GET', path: '/v1/orders', rest: 0 }
  const caller = decision.bound()?.caller
  expect(lines).toMatchObject([
    { ...common, ...route, rule: 'per-user', mode: 'candidate', limit: 'trial', caller },
    { ...common, ...route, rule: 'tried', mode: 'shadow', limit: 'token-bucket-1h', caller },
  ])
  expect(lines[0]?.['retryAfterMs']).toBeGreaterThan(0)
})

test('the line of a refusal has no mode, so that it differs from a would-be refusal', () => {
  const { refusals, lines } = setUp()
  refusals.logRefusal(refusalOf('a'), CALL, 'api')
  expect(lines[0]).not.toHaveProperty('mode')
})

test('a cost above the capacity of a candidate is logged with that reason', () => {
  const { refusals, lines, endSecond } = setUp()
  const limiter = createLimiter({
    rules: 'rules: [{ id: r, by: [user], limits: [9/hour], candidate: { limits: [3/hour] } }]',
  })
  const dear = { ...CALL, cost: 5 }
  refusals.logShadowRefusal(limiter.checkSync(dear), dear, 'api')
  endSecond()
  expect(lines).toMatchObject([{ reason: 'cost_exceeds_limit', retryAfterMs: null }])
})

test('would-be refusals of a caller, rule and second are one line, when the second is over', () => {
  const { refusals, lines, endSecond } = setUp()
  for (let i = 0; i < 100; i++) refusals.logShadowRefusal(wouldBe(1), CALL, 'api')
  refusals.logShadowRefusal(wouldBe(2), CALL, 'api')
  refusals.logShadowRefusal(wouldBe(1, 'per-user', 'candidate'), CALL, 'api')
  refusals.tick()
  expect(lines).toEqual([])
  endSecond()
  refusals.logShadowRefusal(wouldBe(1), CALL, 'api')
  endSecond()
  const logged = lines.map(({ caller, mode, rest }) => [Number(caller), mode, rest])
  expect(logged).toEqual([
    [1, 'shadow', 99],
    [2, 'shadow', 0],
    [1, 'candidate', 0],
    [1, 'shadow', 0],
  ])
})

test('in clear, a line has the attributes that the rule in shadow counts by', () => {
  const { refusals, lines, endSecond } = setUp({ callers: 'clear', secretAttributes: ['key'] })
  const call = { attributes: { user: 'u\n1', key: 'sk_live' } }
  const counted = { by: ['user', 'key'], call: callWith(call.attributes) }
  const refusal = { ...wouldBe(1).shadowRefusals()[0], ...counted } as ShadowRefusal
  refusals.logShadowRefusal({ ...wouldBe(1), shadowRefusals: () => [refusal] }, call, 'api')
  endSecond()
  expect(lines[0]?.['caller']).toEqual({ user: 'u\\u000a1', key: '(secret)' })
})

test('a flood of would-be refusals takes no line from refusals, before them or after', () => {
  const { refusals, lines, endSecond } = setUp()
  for (let second = 0; second < 4; second++) {
    for (let i = 0; i < 5000; i++)
      refusals.logShadowRefusal(wouldBe(second * 5000 + i), CALL, 'api')
    for (let i = 0; i < 1000; i++) refusals.logRefusal(refusalOf(`c${second}-${i}`), CALL, 'api')
    endSecond()
  }
  expect(lines.filter(({ msg }) => msg === 'refused')).toHaveLength(4000)
  expect(lines.filter(isShadow)).toHaveLength(0)
  endSecond()
  // The 1,000 pending lines; the others were dropped.
  expect(lines.filter(isShadow)).toHaveLength(1000)
  expect(refusals.dropped()).toBe(19_000)
})

test('would-be refusals leave room for refusals if the reader of the log is slow', () => {
  const WAITING_MAX = 1_000_000
  const WAITING_MANY = WAITING_MAX / 2
  let waiting = 0
  // A reader that reads nothing meanwhile.
  const destination: LineSink = {
    write(line) {
      if (waiting + line.length > WAITING_MAX) return false
      waiting += line.length
      return true
    },
    isBusy: () => waiting > WAITING_MANY,
    flush: () => Promise.resolve(),
    flushNow: () => undefined,
    lost: () => 0,
  }
  const log = createLogger({ level: 'info', destination })
  const { refusals, endSecond } = setUp({ log, callers: 'clear' })
  const by = ['user', 'tenant', 'team', 'project', 'region']
  const attributes = Object.fromEntries(by.map((name) => [name, 'x'.repeat(256)]))
  for (let caller = 0; caller < 1000; caller++) {
    const list = wouldBe(caller)
      .shadowRefusals()
      .map((refusal) => ({ ...refusal, by, call: callWith(attributes) }))
    const decision = { ...UNMATCHED, shadow: ['per-user'], shadowRefusals: () => list }
    refusals.logShadowRefusal(decision, { attributes }, 'gateway')
  }
  endSecond()
  expect(waiting).toBeGreaterThan(WAITING_MANY)
  for (let caller = 0; caller < 500; caller++) {
    refusals.logRefusal(refusalOf(`${caller}`), CALL, 'gateway')
  }
  expect(refusals.dropped()).toBe(0)

  // Pending lines are written when the reader has caught up.
  const before = waiting
  waiting = 0
  endSecond()
  expect(before).toBeLessThan(WAITING_MAX)
  expect(waiting).toBeGreaterThan(0)
  expect(refusals.dropped()).toBe(0)
})

test('would-be refusals use the lines of a second that refusals left over', () => {
  const { refusals, lines, endSecond } = setUp()
  for (let i = 0; i < 700; i++) refusals.logRefusal(refusalOf(`c${i}`), CALL, 'api')
  for (let i = 0; i < 500; i++) refusals.logShadowRefusal(wouldBe(i), CALL, 'api')
  endSecond()
  expect(lines).toHaveLength(1000)
  endSecond()
  expect(lines.filter(isShadow)).toHaveLength(500)
  expect(refusals.dropped()).toBe(0)
})

test('closing writes pending lines', () => {
  const { refusals, lines, advance } = setUp()
  refusals.tick()
  advance(1000)
  refusals.logShadowRefusal(wouldBe(1), CALL, 'api')
  refusals.close()
  expect(lines).toHaveLength(1)
})

test('every would-be refusal is a line, in the rest of one, or dropped, and none takes a line', () => {
  const steps = fc.array(
    fc.oneof(
      { weight: 5, arbitrary: fc.record({ caller: fc.nat(5), times: fc.nat(20) }) },
      { weight: 2, arbitrary: fc.record({ crowd: fc.nat(2500) }) },
      { weight: 2, arbitrary: fc.record({ refused: fc.nat(1500) }) },
      { weight: 3, arbitrary: fc.record({ advance: fc.integer({ min: -1500, max: 2500 }) }) },
      { weight: 2, arbitrary: fc.constantFrom('tick', 'stuck', 'flush') },
    ),
    { maxLength: 60 },
  )
  /** Runs the steps; without would-be refusals the lines of refusals must be the same. */
  const run = (list: readonly unknown[], hasShadow: boolean) => {
    const { memory, refusals, lines, advance } = setUp()
    let sent = 0
    const would = (caller: number) => {
      if (!hasShadow) return
      sent++
      refusals.logShadowRefusal(wouldBe(caller), CALL, 'api')
    }
    list.forEach((step, index) => {
      if (step === 'tick') return refusals.tick()
      if (step === 'flush') return refusals.flush()
      if (step === 'stuck') return void (memory.isStuck = !memory.isStuck)
      const { advance: ms, crowd, refused, caller = 0, times = 0 } = Object(step)
      if (ms !== undefined) return advance(ms)
      if (refused !== undefined) {
        for (let i = 0; i < refused; i++)
          refusals.logRefusal(refusalOf(`${index}-${i}`), CALL, 'api')
        return
      }
      for (let i = 0; i < (crowd ?? 0); i++) would(1000 + index * 2500 + i)
      for (let i = 0; i < times; i++) would(caller)
    })
    refusals.flush()
    const shadow = lines.filter(isShadow)
    const reported = shadow.reduce((sum, { rest }) => sum + Number(rest) + 1, 0)
    const others = lines.filter((line) => !isShadow(line))
    return { sent, reported, dropped: refusals.dropped(), lines: others }
  }
  fc.assert(
    fc.property(steps, (list) => {
      const alone = run(list, false)
      const both = run(list, true)
      expect(both.lines).toEqual(alone.lines)
      expect(both.reported + both.dropped - alone.dropped).toBe(both.sent)
    }),
    { numRuns: propertyRuns(100) },
  )
})

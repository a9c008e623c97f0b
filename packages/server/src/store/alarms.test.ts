import type { RedisNodeStats, RedisStats } from '@sluice/limiter/redis'
import { expect, test } from 'vitest'
import { createMemoryLog } from '../log/memory-log.test-helper.js'
import { Alarms } from './alarms.js'

const NODE: RedisNodeStats = {
  address: '10.0.0.1:6379',
  isAnswering: true,
  isBreakerOpen: false,
  breakerOpened: 0,
  clock: { offsetSeconds: 0, errorSeconds: 0 },
  inFlight: 0,
  queuedTakes: 0,
}

const statsOf = (...nodes: readonly Partial<RedisNodeStats>[]): RedisStats => ({
  state: 'ready',
  nodes: nodes.map((node) => ({ ...NODE, ...node })),
  fleet: { size: 1, ageMs: 0 },
  memory: undefined,
})

function setUp() {
  let now = Date.UTC(2026, 0, 1)
  const clock = { now: () => now }
  const { log, lines } = createMemoryLog('info', clock)
  const counts = new Map<string, { decisions: number; degraded: number }>()
  const alarms = new Alarms({
    log,
    clock,
    metrics: {
      eachRule: (visit) => {
        for (const [rule, { decisions, degraded }] of counts) visit(rule, decisions, degraded)
      },
    },
  })
  const decide = (rule: string, decisions: number, degraded: number) => {
    const before = counts.get(rule) ?? { decisions: 0, degraded: 0 }
    counts.set(rule, {
      decisions: before.decisions + decisions,
      degraded: before.degraded + degraded,
    })
  }
  const tick = (stats = statsOf(NODE)) => {
    now += 1000
    alarms.tick(stats)
  }
  const told = () => lines.splice(0).map(({ level, msg, alarm }) => [level, msg, alarm])
  return { alarms, lines, decide, tick, told }
}

test('one in a thousand by posture is no alarm, and one more is one, once', () => {
  const { decide, tick, told, lines } = setUp()
  decide('a', 1000, 1)
  decide('b', 500, 0)
  tick()
  expect(lines).toEqual([])
  decide('a', 1, 1)
  tick()
  expect(lines).toMatchObject([{ rules: ['a'], count: 1 }])
  expect(told()).toEqual([['error', 'alarm', 'degraded']])
  decide('b', 5, 5)
  for (let i = 0; i < 5; i++) tick()
  expect(told()).toEqual([])
})

test('it counts the last ten seconds, and is over when they are good', () => {
  const { decide, tick, told, lines } = setUp()
  decide('a', 1, 1)
  tick()
  expect(told()).toEqual([['error', 'alarm', 'degraded']])
  for (let i = 0; i < 9; i++) tick()
  expect(told()).toEqual([])
  tick()
  expect(lines).toMatchObject([{ lastedMs: 10_000 }])
  expect(told()).toEqual([['info', 'alarm over', 'degraded']])
  decide('a', 10_000, 0)
  decide('a', 11, 11)
  tick()
  expect(told()).toEqual([['error', 'alarm', 'degraded']])
})

test('a rule that was seldom wrong among many decisions raises none, whenever it began', () => {
  const { decide, tick, told } = setUp()
  for (let i = 0; i < 9; i++) {
    decide('a', 1000, 0)
    tick()
  }
  decide('a', 5, 5)
  tick()
  expect(told()).toEqual([])
})

test('a breaker that opens is an alarm at once, and over when it is closed', () => {
  const { alarms, tick, told, lines } = setUp()
  alarms.breakerOpened('10.0.0.1:6379')
  expect(lines).toMatchObject([{ stores: ['10.0.0.1:6379'] }])
  expect(told()).toEqual([['error', 'alarm', 'breaker']])
  tick(statsOf({ isBreakerOpen: true }, {}))
  expect(told()).toEqual([])
  tick(statsOf({}, {}))
  expect(told()).toEqual([['info', 'alarm over', 'breaker']])
  tick(statsOf({}, { isBreakerOpen: true }))
  expect(told()).toEqual([['error', 'alarm', 'breaker']])
})

test('a clock that is off by more than 20 ms, either way, is an alarm', () => {
  const { tick, told } = setUp()
  const clockAt = (offsetSeconds: number) => statsOf({ clock: { offsetSeconds, errorSeconds: 0 } })
  tick(clockAt(0.02))
  tick(statsOf({ clock: undefined }))
  expect(told()).toEqual([])
  tick(clockAt(-0.021))
  expect(told()).toEqual([['error', 'alarm', 'clock']])
  tick(clockAt(0.001))
  expect(told()).toEqual([['info', 'alarm over', 'clock']])
})

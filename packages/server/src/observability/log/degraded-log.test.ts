import { type Decision, type PostureName, UNMATCHED } from '@sluice/core'
import { expect, test } from 'vitest'
import { createDegradedLog } from './degraded-log.js'
import { createMemoryLog } from './memory-log.test-helper.js'

function setUp() {
  let now = Date.UTC(2026, 0, 1)
  const clock = { now: () => now }
  const memory = createMemoryLog('info', clock)
  const degraded = createDegradedLog({ log: memory.log, clock, sweepMs: 0 })
  const advance = (ms: number) => {
    now += ms
  }
  return { memory, lines: memory.lines, degraded, advance }
}

function by(postures: Readonly<Record<string, PostureName>>): Decision {
  return {
    ...UNMATCHED,
    postures,
    degraded: (visit) => {
      for (const [rule, posture] of Object.entries(postures)) visit(rule, posture)
    },
  }
}

test('each rule and posture has one line a second, and the others are counted', () => {
  const { degraded, lines, advance } = setUp()
  for (let i = 0; i < 100; i++) degraded.onDecision(by({ orders: 'local', login: 'closed' }))
  degraded.onDecision(by({ orders: 'open' }))
  const summaries = () => lines.map(({ msg, rule, posture, rest }) => [msg, rule, posture, rest])
  expect(summaries()).toEqual([
    ['degraded', 'orders', 'local', 0],
    ['degraded', 'login', 'closed', 0],
    ['degraded', 'orders', 'open', 0],
  ])
  expect(lines[0]).toMatchObject({ level: 'warn' })
  lines.length = 0
  advance(1000)
  degraded.onDecision(by({ orders: 'local' }))
  expect(summaries()).toEqual([['degraded', 'orders', 'local', 99]])
  lines.length = 0
  advance(1000)
  degraded.tick()
  expect(summaries()).toEqual([['degraded again', 'login', 'closed', 99]])
})

test('closing reports what is still counted, and drops what cannot be written', () => {
  const { degraded, lines, memory } = setUp()
  for (let i = 0; i < 3; i++) degraded.onDecision(by({ orders: 'local' }))
  degraded.close()
  expect(lines.at(-1)).toMatchObject({ msg: 'degraded again', rest: 2 })
  memory.isStuck = true
  degraded.onDecision(by({ orders: 'local' }))
  expect(degraded.dropped()).toBe(1)
})

test('more than a thousand rules at once give a thousand lines, and the others are dropped', () => {
  const { degraded, lines } = setUp()
  for (let i = 0; i < 1500; i++) degraded.onDecision(by({ [`rule-${i}`]: 'local' }))
  expect(lines).toHaveLength(1000)
  expect(degraded.dropped()).toBe(500)
})

import { expect, test } from 'vitest'
import { createMemoryLog } from '../log/memory-log.test-helper.js'
import type { Alert, AlertName, Finding } from './alert.js'
import { ACTIVE_PER_ALERT_MAX, AlertRegistry, RECENT_MAX } from './alert-registry.js'

const START = Date.UTC(2026, 0, 1)

const findingOf = (subject: string, summary = `${subject} is bad.`): Finding => ({
  subject,
  summary,
  details: { store: subject },
})

function setUp(off: readonly AlertName[] = []) {
  const { log, lines } = createMemoryLog('info', { now: () => START })
  const book = new AlertRegistry({ log, node: 'n1', runbook: 'https://wiki.example/runbook', off })
  const notified: Alert[] = []
  book.onChange((alert) => notified.push(alert))
  const update = (name: AlertName, atMs: number, ...subjects: readonly string[]) =>
    book.update(
      name,
      subjects.map((subject) => findingOf(subject)),
      START + atMs,
    )
  const changes = () =>
    notified.splice(0).map(({ id, resolvedAt }) => (resolvedAt === null ? `+${id}` : `-${id}`))
  return { book, lines, notified, update, changes }
}

test('an alert is notified once when it begins and once when it ends, however often it is found', () => {
  const { book, update, changes, lines } = setUp()
  for (let second = 0; second < 30; second++) update('degraded', second * 1000, 'a')
  expect(changes()).toEqual(['+degraded:a'])
  expect(book.active()).toHaveLength(1)
  for (let second = 30; second < 60; second++) update('degraded', second * 1000)
  expect(changes()).toEqual(['-degraded:a'])
  expect(book.active()).toEqual([])
  expect(lines.map(({ level, msg }) => [level, msg])).toEqual([
    ['error', 'alert'],
    ['info', 'alert over'],
  ])
})

test('an alert has its subject, its start and the link to the runbook', () => {
  const { book, update, lines } = setUp()
  update('clock-offset', 0, '10.0.0.1:6379')
  expect(book.active()).toEqual([
    {
      id: 'clock-offset:10.0.0.1:6379',
      alert: 'clock-offset',
      severity: 'ticket',
      subject: '10.0.0.1:6379',
      summary: '10.0.0.1:6379 is bad.',
      details: { store: '10.0.0.1:6379' },
      since: '2026-01-01T00:00:00.000Z',
      resolvedAt: null,
      node: 'n1',
      runbook: 'https://wiki.example/runbook#clock-offset',
    },
  ])
  update('clock-offset', 25_000)
  expect(book.recent()).toMatchObject([{ resolvedAt: '2026-01-01T00:00:25.000Z' }])
  expect(lines).toMatchObject([
    {
      level: 'warn',
      msg: 'alert',
      alert: 'clock-offset',
      subject: '10.0.0.1:6379',
      summary: '10.0.0.1:6379 is bad.',
      since: '2026-01-01T00:00:00.000Z',
      runbook: 'https://wiki.example/runbook#clock-offset',
    },
    { level: 'info', msg: 'alert over', alert: 'clock-offset', lastedMs: 25_000 },
  ])
})

test('a finding within ten seconds continues the same alert', () => {
  const { update, changes } = setUp()
  update('breaker-open', 0, 'a')
  update('breaker-open', 9000)
  update('breaker-open', 9500, 'a')
  update('breaker-open', 19_000)
  expect(changes()).toEqual(['+breaker-open:a'])
  update('breaker-open', 19_500)
  expect(changes()).toEqual(['-breaker-open:a'])
  update('breaker-open', 20_000, 'a')
  expect(changes()).toEqual(['+breaker-open:a'])
})

test('an eviction alert ends after a minute without evictions', () => {
  const { update, changes } = setUp()
  update('store-evictions', 0, 'a')
  update('store-evictions', 59_000)
  expect(changes()).toEqual(['+store-evictions:a'])
  update('store-evictions', 60_000)
  expect(changes()).toEqual(['-store-evictions:a'])
})

test('alerts of different names or subjects are independent', () => {
  const { book, update, changes } = setUp()
  update('degraded', 0, 'a', 'b')
  update('breaker-open', 1000, 'a')
  update('degraded', 20_000, 'b')
  expect(changes()).toEqual(['+degraded:a', '+degraded:b', '+breaker-open:a', '-degraded:a'])
  expect(book.active().map(({ id }) => id)).toEqual(['breaker-open:a', 'degraded:b'])
})

test('summary and details of an active alert are updated without a notification', () => {
  const { book, changes, lines } = setUp()
  book.update('degraded', [findingOf('a', 'Bad.')], START)
  book.update('degraded', [{ ...findingOf('a', 'Worse.'), details: { share: 0.5 } }], START + 1000)
  expect(book.active()).toMatchObject([{ summary: 'Worse.', details: { share: 0.5 } }])
  expect(changes()).toEqual(['+degraded:a'])
  expect(lines).toHaveLength(1)
})

test('an alert that is off never begins', () => {
  const { book, update, changes, lines } = setUp(['degraded', 'breaker-open'])
  update('degraded', 0, 'a')
  book.report('breaker-open', findingOf('a'), START)
  expect(changes()).toEqual([])
  expect(book.active()).toEqual([])
  expect(book.totals().size).toBe(0)
  expect(lines).toEqual([])
})

test('a finding between two ticks lasts as long as one at a tick', () => {
  const { book, update, changes } = setUp()
  book.report('breaker-open', findingOf('a'), START)
  book.report('breaker-open', findingOf('a'), START + 1)
  update('breaker-open', 500)
  expect(changes()).toEqual(['+breaker-open:a'])
  update('breaker-open', 10_001)
  expect(changes()).toEqual(['-breaker-open:a'])
})

test('of ten thousand findings twenty become alerts, and the last counts the rest', () => {
  const { book, update, changes } = setUp()
  const rules = Array.from({ length: 10_000 }, (_, index) => `r${index}`)
  update('degraded', 0, ...rules)
  update('degraded', 1000, ...rules)
  expect(changes()).toHaveLength(ACTIVE_PER_ALERT_MAX)
  expect(book.active()).toHaveLength(ACTIVE_PER_ALERT_MAX)
  expect(book.active().at(-1)?.details).toEqual({ store: 'r19', others: 9980 })
  update('degraded', 2000, ...rules.slice(0, ACTIVE_PER_ALERT_MAX))
  expect(book.active().at(-1)?.details).toEqual({ store: 'r19' })
  update('breaker-open', 2000, 'a')
  expect(changes()).toEqual(['+breaker-open:a'])
})

test('the last hundred resolved alerts are kept, the latest first', () => {
  const { book, update } = setUp()
  for (let i = 0; i < RECENT_MAX + 20; i++) {
    update('degraded', i * 100_000, `r${i}`)
    update('degraded', i * 100_000 + 50_000)
  }
  expect(book.recent()).toHaveLength(RECENT_MAX)
  expect(book.recent()[0]?.subject).toBe(`r${RECENT_MAX + 19}`)
  expect(book.totals().get('degraded')).toBe(RECENT_MAX + 20)
})

test('a clock that is set back does not prolong an alert', () => {
  const { update, changes } = setUp()
  update('degraded', 3_600_000, 'a')
  update('degraded', 0)
  expect(changes()).toEqual(['+degraded:a'])
  update('degraded', 10_000)
  expect(changes()).toEqual(['-degraded:a'])
})

test('a node that stops resolves all its alerts', () => {
  const { book, update, changes } = setUp()
  update('degraded', 0, 'a', 'b')
  book.resolveAll(START + 1)
  expect(changes()).toEqual(['+degraded:a', '+degraded:b', '-degraded:a', '-degraded:b'])
})

test('a removed listener is not called', () => {
  const { book, update } = setUp()
  const received: string[] = []
  const listen = ({ id }: Alert) => received.push(id)
  const [first, second] = [book.onChange(listen), book.onChange(listen)]
  update('degraded', 0, 'a')
  first()
  first()
  update('degraded', 0, 'b')
  second()
  update('degraded', 0, 'c')
  expect(received).toEqual(['degraded:a', 'degraded:a', 'degraded:b'])
})

test('pages come before tickets, and causes before consequences, whichever began first', () => {
  const { book, update } = setUp()
  update('caller-exhausted', 0, 'a/h1')
  update('degraded', 1000, 'late')
  update('clock-offset', 1000, 'b')
  update('breaker-open', 2000, 'later')
  expect(book.active().map(({ subject }) => subject)).toEqual(['later', 'late', 'a/h1', 'b'])
})

test('a resolved alert has the last summary in the past tense', () => {
  const { book, notified, lines } = setUp()
  const finding = (seconds: number): Finding => ({
    ...findingOf('a', `a is bad for ${seconds} s.`),
    past: `a was bad for ${seconds} s.`,
  })
  for (const second of [1, 2, 3]) book.update('degraded', [finding(second)], START + second * 1000)
  book.update('degraded', [], START + 20_000)
  expect(notified.map(({ summary }) => summary)).toEqual([
    'a is bad for 1 s.',
    'a was bad for 3 s.',
  ])
  expect(book.recent()).toMatchObject([{ summary: 'a was bad for 3 s.' }])
  expect(lines.at(-1)).toMatchObject({ msg: 'alert over', summary: 'a was bad for 3 s.' })
})

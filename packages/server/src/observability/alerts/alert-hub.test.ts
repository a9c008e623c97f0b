import { expect, test } from 'vitest'
import type { Alert } from './alert.js'
import { AlertHub } from './alert-hub.js'

const AT = Date.UTC(2026, 0, 1)

const ALERT: Alert = {
  id: 'breaker-open:a',
  alert: 'breaker-open',
  severity: 'page',
  subject: 'a',
  summary: 'a does not answer.',
  details: {},
  since: '2025-12-31T23:00:00.000Z',
  resolvedAt: null,
  node: 'n1',
  runbook: 'r#breaker-open',
}

function setUp() {
  const notified: Alert[] = []
  const sink = {
    isClosed: false,
    notify: (alert: Alert) => void notified.push(alert),
    close: async () => void (sink.isClosed = true),
  }
  const hub = new AlertHub(sink, { now: () => AT })
  const end = (alert: Alert) => ({ ...alert, resolvedAt: '2025-12-31T23:30:00.000Z' })
  const states = () => notified.splice(0).map(({ id, resolvedAt }) => [id, resolvedAt])
  return { hub, sink, notified, end, states }
}

test('an alert of several workers is notified once, and ends when the last resolves it', () => {
  const { hub, end, states } = setUp()
  hub.report(1, ALERT)
  hub.report(2, { ...ALERT, node: 'n2' })
  hub.report(1, ALERT)
  expect(states()).toEqual([['breaker-open:a', null]])
  hub.report(1, end(ALERT))
  hub.report(1, end(ALERT))
  expect(states()).toEqual([])
  hub.report(2, end({ ...ALERT, node: 'n2' }))
  expect(states()).toEqual([['breaker-open:a', '2025-12-31T23:30:00.000Z']])
})

test('an alert of several workers has the start and node of the first', () => {
  const { hub, end, notified } = setUp()
  hub.report(1, ALERT)
  const later = { ...ALERT, node: 'n2', since: '2025-12-31T23:10:00.000Z' }
  hub.report(2, later)
  hub.report(1, end(ALERT))
  hub.report(2, end({ ...later, summary: 'a did not answer.' }))
  expect(notified.at(-1)).toEqual({ ...end(ALERT), summary: 'a did not answer.' })
})

test('an alert of a single worker that died ends', () => {
  const { hub, states } = setUp()
  hub.report(1, ALERT)
  hub.report(2, { ...ALERT, id: 'degraded:x' })
  hub.report(3, { ...ALERT, id: 'degraded:x' })
  states()
  hub.removeWorker(1)
  hub.removeWorker(2)
  expect(states()).toEqual([['breaker-open:a', '2026-01-01T00:00:00.000Z']])
  hub.removeWorker(3)
  expect(states()).toEqual([['degraded:x', '2026-01-01T00:00:00.000Z']])
  hub.report(4, ALERT)
  expect(states()).toEqual([['breaker-open:a', null]])
})

test('an alert that ends with its worker says so', () => {
  const { hub, notified } = setUp()
  hub.report(1, ALERT)
  hub.removeWorker(1)
  expect(notified.map(({ summary }) => summary)).toEqual([
    'a does not answer.',
    'The worker that reported this has ended. Its last report: a does not answer.',
  ])
})

test('the end of an unknown alert is ignored', () => {
  const { hub, end, states } = setUp()
  hub.report(1, end(ALERT))
  hub.removeWorker(7)
  expect(states()).toEqual([])
})

test('alerts beyond two thousand are ignored, and known ones kept', () => {
  const { hub, end, states } = setUp()
  for (let i = 0; i < 2500; i++) hub.report(1, { ...ALERT, id: `degraded:r${i}` })
  expect(states()).toHaveLength(2000)
  hub.report(1, end({ ...ALERT, id: 'degraded:r2100' }))
  hub.report(1, end({ ...ALERT, id: 'degraded:r1999' }))
  expect(states()).toHaveLength(1)
})

test('closing the hub closes the sink', async () => {
  const { hub, sink } = setUp()
  await hub.close()
  expect(sink.isClosed).toBe(true)
})

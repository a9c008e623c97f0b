import type { AlertView } from '@sluice/client'
import { expect, test } from 'vitest'
import { groupAlerts } from './group-alerts.js'

const alert = (id: string, kind: AlertView['alert'], rule?: string): AlertView => ({
  id,
  alert: kind,
  severity: 'ticket',
  subject: id,
  summary: id,
  details: rule === undefined ? {} : { rule },
  since: '2027-01-01T00:00:00.000Z',
  resolvedAt: null,
  runbook: 'docs/guides/runbook.md',
  node: 'n1',
})

const page = (one: AlertView): AlertView => ({ ...one, severity: 'page' })
const idsOf = (alerts: readonly AlertView[]) =>
  groupAlerts(alerts).map(({ first, others }) => [first, ...others].map(({ id }) => id))

test('alerts of one kind about one rule stand together, where the first of them stood', () => {
  const alerts = [
    alert('a', 'caller-at-zero', 'login'),
    alert('b', 'breaker-open'),
    alert('c', 'caller-at-zero', 'login'),
    alert('d', 'caller-at-zero', 'orders'),
    alert('e', 'caller-at-zero', 'login'),
  ]
  expect(idsOf(alerts)).toEqual([['a', 'c', 'e'], ['b'], ['d']])
  expect(groupAlerts([])).toEqual([])
})

test('a page stands before every ticket, however old those are', () => {
  const alerts = [
    alert('a', 'caller-at-zero', 'login'),
    alert('b', 'caller-at-zero', 'orders'),
    page(alert('c', 'caller-at-zero', 'login')),
    page(alert('d', 'breaker-open')),
  ]
  expect(idsOf(alerts)).toEqual([['c'], ['d'], ['a'], ['b']])
})

import type { AlertView } from '@sluice/client'
import { expect, test } from 'vitest'
import { groupAlerts } from './group-alerts.js'

const EXHAUSTED = 'caller-exhausted' satisfies AlertView['alert']

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

test('alerts of one kind about one rule are grouped at the position of the first', () => {
  const alerts = [
    alert('a', EXHAUSTED, 'login'),
    alert('b', 'breaker-open'),
    alert('c', EXHAUSTED, 'login'),
    alert('d', EXHAUSTED, 'orders'),
    alert('e', EXHAUSTED, 'login'),
  ]
  expect(idsOf(alerts)).toEqual([['a', 'c', 'e'], ['b'], ['d']])
  expect(groupAlerts([])).toEqual([])
})

test('pages come before tickets, whatever their age', () => {
  const alerts = [
    alert('a', EXHAUSTED, 'login'),
    alert('b', EXHAUSTED, 'orders'),
    page(alert('c', EXHAUSTED, 'login')),
    page(alert('d', 'breaker-open')),
  ]
  expect(idsOf(alerts)).toEqual([['c'], ['d'], ['a'], ['b']])
})

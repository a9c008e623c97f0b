import type { AlertView } from '@sluice/client'
import { expect, test } from 'vitest'
import { alikeOf } from './alike.js'

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

test('alerts of one kind about one rule stand together, where the first of them stood', () => {
  const alerts = [
    alert('a', 'caller-at-zero', 'login'),
    alert('b', 'breaker-open'),
    alert('c', 'caller-at-zero', 'login'),
    alert('d', 'caller-at-zero', 'orders'),
    alert('e', 'caller-at-zero', 'login'),
  ]
  const ids = alikeOf(alerts).map(({ first, others }) => [first, ...others].map(({ id }) => id))
  expect(ids).toEqual([['a', 'c', 'e'], ['b'], ['d']])
  expect(alikeOf([])).toEqual([])
})

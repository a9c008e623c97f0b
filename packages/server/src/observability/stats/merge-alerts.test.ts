import { expect, test } from 'vitest'
import type { Alert } from '../alerts/alert.js'
import { mergeAlerts } from './merge-alerts.js'

const alertOf = (subject: string, second: number, more: Partial<Alert> = {}): Alert => ({
  id: `breaker-open:${subject}`,
  alert: 'breaker-open',
  severity: 'page',
  subject,
  summary: 'Redis does not answer.',
  details: {},
  since: timeOf(second),
  resolvedAt: null,
  node: 'n1',
  runbook: 'r#breaker-open',
  ...more,
})
const timeOf = (second: number) => new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString()
const over = (subject: string, since: number, until: number, node = 'n1') =>
  alertOf(subject, since, { resolvedAt: timeOf(until), node })

test('an alert of two nodes is one alert, since the first reported it', () => {
  const one = { active: [alertOf('a', 5)], recent: [] }
  const two = { active: [alertOf('a', 3, { node: 'n2' }), alertOf('b', 9)], recent: [] }
  expect(mergeAlerts([one, two]).active).toMatchObject([
    { subject: 'a', since: timeOf(3), node: 'n2' },
    { subject: 'b', since: timeOf(9) },
  ])
})

test('an alert is active as long as it is on one node', () => {
  const one = { active: [], recent: [over('a', 1, 20)] }
  const two = { active: [alertOf('a', 1)], recent: [] }
  expect(mergeAlerts([one, two])).toMatchObject({ active: [{ subject: 'a' }], recent: [] })
})

test('a resolved alert is listed once, with the end of the last node, the latest first', () => {
  const one = { active: [], recent: [over('a', 1, 20), over('b', 40, 50)] }
  const two = { active: [], recent: [over('a', 2, 25, 'n2')] }
  const merged = mergeAlerts([one, two]).recent.map(({ subject, resolvedAt }) => [
    subject,
    resolvedAt,
  ])
  expect(merged).toEqual([
    ['b', timeOf(50)],
    ['a', timeOf(25)],
  ])
})

test('the same alert an hour later is listed separately', () => {
  const one = { active: [], recent: [over('a', 1, 20), over('a', 3600, 3700)] }
  expect(mergeAlerts([one]).recent).toHaveLength(2)
})

test('an earlier occurrence is listed beside the active one', () => {
  const one = { active: [alertOf('a', 300)], recent: [over('a', 200, 250), over('a', 1, 20)] }
  // The other node had the last occurrence as well, for a part of its time.
  const two = { active: [], recent: [over('a', 300, 310, 'n2')] }
  const { active, recent } = mergeAlerts([one, two])
  expect(active).toHaveLength(1)
  expect(recent.map(({ since }) => since)).toEqual([timeOf(200), timeOf(1)])
})

test('pages are listed before tickets, whichever began first', () => {
  const one = { active: [alertOf('t', 1, { severity: 'ticket' }), alertOf('b', 9)], recent: [] }
  const two = { active: [alertOf('a', 5), alertOf('s', 0, { severity: 'ticket' })], recent: [] }
  const merged = mergeAlerts([one, two]).active.map(({ subject }) => subject)
  expect(merged).toEqual(['a', 'b', 's', 't'])
})

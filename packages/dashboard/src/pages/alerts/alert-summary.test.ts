import type { AlertView } from '@sluice/client'
import { expect, test } from 'vitest'
import { alertSummary } from './alert-summary.js'

const summary = 'Caller 1f2e of rule "a" has had nothing left for 9 s.'
const summaryOf = (details: AlertView['details']) => alertSummary({ summary, details })

test('a known caller is shown by name', () => {
  const details = { hash: '1f2e', caller: ['user=u1', 'ip=192.0.2.1'] }
  expect(summaryOf(details)).toBe(
    'Caller user=u1, ip=192.0.2.1 of rule "a" has had nothing left for 9 s.',
  )
  expect(summaryOf({ ...details, caller: ["$&$'"] })).toContain("Caller $&$' of")
})

test('an unknown or shared caller leaves the summary of the server unchanged', () => {
  for (const details of [{ hash: '1f2e' }, {}, { hash: '1f2e', caller: [] }]) {
    expect(summaryOf(details)).toBe(summary)
  }
})

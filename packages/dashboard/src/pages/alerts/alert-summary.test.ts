import type { AlertView } from '@sluice/client'
import { expect, test } from 'vitest'
import { alertSummary } from './alert-summary.js'

const summary = 'Caller 1f2e of rule "a" has had nothing left for 9 s.'
const told = (details: AlertView['details']) => alertSummary({ summary, details })

test('a caller is told by its name where that is known', () => {
  const details = { hash: '1f2e', caller: ['user=u1', 'ip=192.0.2.1'] }
  expect(told(details)).toBe(
    'Caller user=u1, ip=192.0.2.1 of rule "a" has had nothing left for 9 s.',
  )
  expect(told({ ...details, caller: ["$&$'"] })).toContain("Caller $&$' of")
})

test('and as the server says it where it is not, or is everybody', () => {
  for (const details of [{ hash: '1f2e' }, {}, { hash: '1f2e', caller: [] }]) {
    expect(told(details)).toBe(summary)
  }
})

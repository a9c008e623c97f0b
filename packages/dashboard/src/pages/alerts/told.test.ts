import { expect, test } from 'vitest'
import { toldOf } from './told.js'

const summary = 'Caller 1f2e of rule "a" has had nothing left for 9 s.'

test('a caller is told by its name where that is known', () => {
  const details = { hash: '1f2e', caller: ['user=u1', 'ip=192.0.2.1'] }
  expect(toldOf({ summary, details })).toBe(
    'Caller user=u1, ip=192.0.2.1 of rule "a" has had nothing left for 9 s.',
  )
  expect(toldOf({ summary, details: { ...details, caller: ["$&$'"] } })).toContain("Caller $&$' of")
})

test('and by its hash where it is not', () => {
  expect(toldOf({ summary, details: { hash: '1f2e' } })).toBe(summary)
  expect(toldOf({ summary, details: { hash: '1f2e', caller: [] } })).toBe(summary)
  expect(toldOf({ summary, details: {} })).toBe(summary)
})

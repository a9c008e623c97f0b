import { expect, test } from 'vitest'
import { clockTime, dateTime } from '../../format.js'
import { alertDetails } from './alert-details.js'

const SINCE = '2027-01-01T06:20:00.000Z'
const NOW_MS = Date.parse(SINCE) + 60_000

test('a time is local, with its date once it is a day old', () => {
  const details = { zeroSince: SINCE }
  expect(alertDetails(details, NOW_MS)).toEqual([
    { name: 'Exhausted since', text: clockTime(SINCE) },
  ])
  const late = alertDetails(details, NOW_MS + 2 * 86_400_000)
  expect(late).toEqual([{ name: 'Exhausted since', text: dateTime(SINCE) }])
})

test('names become labels, and numbers have units', () => {
  const details = {
    usedBytes: 900_000_000,
    offsetMs: 25.5,
    ageSeconds: 75,
    rule: 'a',
    someName: 1.5,
  }
  expect(alertDetails(details, NOW_MS)).toEqual([
    { name: 'Memory used', text: '900 MB' },
    { name: 'Clock offset', text: '25.5 ms' },
    { name: 'Unconfirmed for', text: '1 min' },
    { name: 'Rule', text: 'a' },
    { name: 'Some name', text: '1.5' },
  ])
})

test('a caller without attributes is shown as all callers', () => {
  expect(alertDetails({ caller: [] }, NOW_MS)).toEqual([{ name: 'Caller', text: 'all callers' }])
  expect(alertDetails({ caller: ['user=a', 'ip=b'] }, NOW_MS)).toEqual([
    { name: 'Caller', text: 'user=a, ip=b' },
  ])
})

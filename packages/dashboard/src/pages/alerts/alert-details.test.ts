import { expect, test } from 'vitest'
import { clockTime, dateTime } from '../../format.js'
import { alertDetails } from './alert-details.js'

const SINCE = '2027-01-01T06:20:00.000Z'
const NOW_MS = Date.parse(SINCE) + 60_000

test('a time is told by the clock on the wall, with its day once that is another', () => {
  const details = { zeroSince: SINCE }
  expect(alertDetails(details, NOW_MS)).toEqual([{ name: 'At zero since', text: clockTime(SINCE) }])
  const late = alertDetails(details, NOW_MS + 2 * 86_400_000)
  expect(late).toEqual([{ name: 'At zero since', text: dateTime(SINCE) }])
})

test('names are words, and figures have their units', () => {
  const details = {
    usedBytes: 900_000_000,
    offsetMs: 25.5,
    ageSeconds: 75,
    rule: 'a',
    someName: 1.5,
  }
  expect(alertDetails(details, NOW_MS)).toEqual([
    { name: 'Memory used', text: '900 MB' },
    { name: 'Off by', text: '25.5 ms' },
    { name: 'Not confirmed for', text: '1 min' },
    { name: 'Rule', text: 'a' },
    { name: 'Some name', text: '1.5' },
  ])
})

test('a caller that is named by nothing is everybody', () => {
  expect(alertDetails({ caller: [] }, NOW_MS)).toEqual([
    { name: 'Caller', text: 'everybody together' },
  ])
  expect(alertDetails({ caller: ['user=a', 'ip=b'] }, NOW_MS)).toEqual([
    { name: 'Caller', text: 'user=a, ip=b' },
  ])
})

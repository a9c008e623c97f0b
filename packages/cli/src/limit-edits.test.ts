import { expect, test } from 'vitest'
import { UsageError } from './command-errors.js'
import { editLimits, hasZeroLimit } from './limit-edits.js'

const daily = { algorithm: 'fixed-window', max: 100, window: 'day', zone: 'Europe/Berlin' }
const hourly = { algorithm: 'sliding-window-counter', max: 1000, window: '1h', name: 'hourly' }

test.each([
  ['the only limit', ['10/second'], '3/minute', ['3/minute']],
  ['no limit at all', [], '3/minute', ['3/minute']],
  [
    'the only limit, with its name and algorithm',
    [hourly],
    '3/minute',
    [{ ...hourly, max: 3, window: '1m' }],
  ],
  [
    'the one of that name, and no other',
    ['10/second', hourly],
    'hourly=500/hour',
    ['10/second', { ...hourly, max: 500 }],
  ],
  [
    'the one whose name is made of its algorithm and window',
    ['10/second', hourly],
    'token-bucket-1s=5/second',
    ['5/second', hourly],
  ],
  [
    'all of them, each by its window',
    ['10/second', hourly],
    '500/hour,5/second',
    [{ ...hourly, max: 500 }, '5/second'],
  ],
  [
    'all of them, in their order where no window is the same',
    ['10/second', hourly],
    '5/2s,500/30m',
    ['5/2s', { ...hourly, max: 500, window: '30m' }],
  ],
  [
    'the max of a calendar day, which stays one',
    [{ ...daily, max: 100 }],
    '50/day',
    [{ ...daily, max: 50 }],
  ],
  [
    'a window of 31 days, and no calendar month',
    [{ ...daily, window: 'month' }, '100/31d'],
    '50/31d,{ algorithm: fixed-window, max: 5, window: month }',
    ['50/31d', { algorithm: 'fixed-window', max: 5, window: 'month' }],
  ],
  ['more than there were', ['10/second'], '5/second,100/hour', ['5/second', '100/hour']],
  [
    'one by a map',
    ['10/second'],
    '{ max: 5, window: 1s, algorithm: gcra }',
    [{ max: 5, window: '1s', algorithm: 'gcra' }],
  ],
  [
    'a burst of its own, which stays',
    [{ max: 10, window: '1s', burst: 50 }],
    '3/minute',
    [{ max: 3, window: '1m', burst: 50 }],
  ],
  [
    'a burst that was the limit, which follows it',
    [{ max: 10, window: '1s', burst: 10 }],
    '3/minute',
    [{ max: 3, window: '1m', burst: 3 }],
  ],
])('--limits sets %s', (_what, present, text, expected) => {
  expect(editLimits(present, text)).toEqual(expected)
})

test.each([
  [['10/second', hourly], '3/minute', 'found 1 for a rule that has 2 (token-bucket-1s, hourly)'],
  [
    ['10/second', hourly],
    'daily=3/day',
    'found "daily", which is no limit of the rule; accepted: token-bucket-1s, hourly',
  ],
  [['10/second', hourly], 'hourly=3/hour,hourly=4/hour', 'found "hourly" twice'],
  [['10/second', hourly], 'hourly=3/hour,5/second', 'found limits with and without a name'],
  [['10/second'], '10/s', 'did you mean'],
  [['10/second'], 'many', 'found "many"'],
  [['10/second'], '', 'found ""'],
  [['10/second'], '{ max: 1', 'found "{ max: 1"'],
  [['10/second'], '-3/minute', 'accepted: limits such as 3/minute'],
])('for the limits %j, --limits %j is misuse: %s', (present, text, message) => {
  expect(() => editLimits(present, text)).toThrow(UsageError)
  expect(() => editLimits(present, text)).toThrow(message)
})

test('a limit refuses every call if its max is 0, in either form', () => {
  expect(hasZeroLimit(['10/second', '0/minute'])).toBe(true)
  expect(hasZeroLimit([{ max: 0, window: '1s' }])).toBe(true)
  expect(hasZeroLimit(['10/second', '100/minute', { max: 10, window: '10s' }])).toBe(false)
  expect(hasZeroLimit([])).toBe(false)
  expect(hasZeroLimit(undefined)).toBe(false)
})

import { describe, expect, test } from 'vitest'
import { nearest, slug } from './suggest.js'

const KEYS = [
  'algorithm',
  'max',
  'window',
  'burst',
  'queue',
  'maxWait',
  'wait',
  'name',
  'onRefusal',
]

describe('the nearest word', () => {
  test.each([
    ['windw', 'window'],
    ['wnidow', 'window'],
    ['Window', 'window'],
    ['windowMs', 'window'],
    ['algo', 'algorithm'],
    ['maxwait', 'maxWait'],
    ['onRefuse', 'onRefusal'],
    ['nmae', 'name'],
    ['mx', 'max'],
  ])('of %s is %s', (word, expected) => {
    expect(nearest(word, KEYS)).toBe(expected)
  })

  test.each(['limit', 'requestsperunit', 'ratelimit', 'x', '', 'rate', 'window'.repeat(20)])(
    'of %j is undefined',
    (word) => {
      expect(nearest(word, KEYS)).toBeUndefined()
    },
  )
})

test.each([
  ['Berlin', 'Europe/Berlin'],
  ['new_york', 'America/New_York'],
  ['Europe/Berln', 'Europe/Berlin'],
  ['Moon/Base', undefined],
])('the zone nearest to %s is %s', (word, expected) => {
  expect(nearest(word, ['America/New_York', 'Europe/Berlin', 'UTC'])).toBe(expected)
})

test.each([
  ['Orders per_user', 'orders-per-user'],
  ['--a--', 'a'],
  ['a'.repeat(100), 'a'.repeat(64)],
  ['héllo', 'h-llo'],
  ['', undefined],
  ['***', undefined],
])('%j as an id is %j', (text, expected) => {
  expect(slug(text)).toBe(expected)
})

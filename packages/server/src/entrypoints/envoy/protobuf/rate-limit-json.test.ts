import { describe, expect, test } from 'vitest'
import { DESCRIPTORS_MAX, ENTRIES_MAX } from '../rate-limit-messages.js'
import { JsonMessageError, rateLimitResponseJson, readRateLimitRequest } from './rate-limit-json.js'

describe('a request in JSON', () => {
  test.each([
    ['names of JSON', { hitsAddend: 2 }, { hitsAddend: '0', isNegativeHits: true }],
    ['names of the proto file', { hits_addend: 2 }, { hits_addend: 0, is_negative_hits: true }],
  ])('is read with the %s', (_name, request, descriptor) => {
    const entries = [{ key: 'one_per_day', value: 'something' }, { key: 'key only' }]
    const limit = { requestsPerUnit: 5, unit: 'DAY' }
    const sent = { domain: 'dummy', descriptors: [{ entries, limit, ...descriptor }], ...request }
    expect(readRateLimitRequest(sent)).toEqual({
      domain: 'dummy',
      descriptors: [
        {
          entries: [
            { key: 'one_per_day', value: 'something' },
            { key: 'key only', value: '' },
          ],
          limit: { requestsPerUnit: 5, unit: 'day' },
          hitsAddend: 0,
          isNegativeHits: true,
        },
      ],
      hitsAddend: 2,
    })
  })

  test('has the defaults of proto3 for what is absent or null', () => {
    const empty = { domain: '', descriptors: [], hitsAddend: 0 }
    expect(readRateLimitRequest({})).toEqual(empty)
    const nulls = { domain: null, descriptors: null, hitsAddend: null }
    expect(readRateLimitRequest(nulls)).toEqual(empty)
    const none = { entries: [], limit: undefined, hitsAddend: undefined, isNegativeHits: false }
    const descriptor = { entries: null, limit: null, hitsAddend: null, isNegativeHits: null }
    const { descriptors } = readRateLimitRequest({ descriptors: [{}, descriptor] })
    expect(descriptors).toEqual([none, none])
  })

  test.each([
    [7, 7],
    ['7', 7],
    ['1e2', 100],
    ['7.0', 7],
    [4294967295, 4294967295],
  ])('has %j as hits', (hitsAddend, expected) => {
    expect(readRateLimitRequest({ hitsAddend }).hitsAddend).toBe(expected)
  })

  test.each([
    ['18446744073709551615', Number.MAX_SAFE_INTEGER],
    ['9007199254740993', Number.MAX_SAFE_INTEGER],
    [9007199254740991, Number.MAX_SAFE_INTEGER],
    ['9007199254740990', 9007199254740990],
  ])('has at most 2^53 - 1 hits of a descriptor for %j', (hitsAddend, expected) => {
    const { descriptors } = readRateLimitRequest({ descriptors: [{ hitsAddend }] })
    expect(descriptors[0]?.hitsAddend).toBe(expected)
  })

  test.each([
    ['WEEK', 'week'],
    [3, 'hour'],
    [99, 'unknown'],
    [undefined, 'unknown'],
  ])('has a limit with the unit %j', (unit, expected) => {
    const { descriptors } = readRateLimitRequest({ descriptors: [{ limit: { unit } }] })
    expect(descriptors[0]?.limit?.unit).toBe(expected)
  })

  test.each([
    ['a list', []],
    ['text', 'text'],
    ['null', null],
    ['an unknown field', { domain: 'd', hits: 1 }],
    ['an unknown field of a descriptor', { descriptors: [{ cost: 1 }] }],
    ['an unknown field of an entry', { descriptors: [{ entries: [{ key: 'k', id: 1 }] }] }],
    ['a field in both spellings', { hitsAddend: 1, hits_addend: 1 }],
    ['a number as domain', { domain: 1 }],
    ['half of a character', { domain: '\ud800' }],
    ['descriptors that are no list', { descriptors: {} }],
    ['a descriptor that is null', { descriptors: [null] }],
    ['negative hits', { hitsAddend: -1 }],
    ['hits with a fraction', { hitsAddend: 1.5 }],
    ['hits of more than 32 bits', { hitsAddend: 2 ** 32 }],
    ['hits that are no number', { hitsAddend: 'many' }],
    ['hits in another base', { hitsAddend: '0x10' }],
    ['hits of a thousand digits', { hitsAddend: '1'.repeat(1000) }],
    ['an empty text as hits', { hitsAddend: '' }],
    ['hits of more than 64 bits', { descriptors: [{ hitsAddend: '18446744073709551616' }] }],
    ['2^64 hits', { descriptors: [{ hitsAddend: 2 ** 64 }] }],
    ['an unknown unit', { descriptors: [{ limit: { unit: 'FORTNIGHT' } }] }],
    ['a unit in small letters', { descriptors: [{ limit: { unit: 'day' } }] }],
    ['a word for true', { descriptors: [{ isNegativeHits: 'true' }] }],
  ])('is refused with %s', (_name, json) => {
    expect(() => readRateLimitRequest(json)).toThrow(JsonMessageError)
  })

  test('is refused with a field that would be a prototype', () => {
    expect(() => readRateLimitRequest(JSON.parse('{"__proto__":{"domain":"d"}}'))).toThrow(
      'unknown field __proto__',
    )
  })

  test('is refused with too many descriptors or entries', () => {
    const tooMany = (most: number) => Array.from({ length: most + 1 }, () => ({}))
    const descriptors = tooMany(DESCRIPTORS_MAX)
    expect(() => readRateLimitRequest({ descriptors })).toThrow('too many descriptors')
    const entries = tooMany(ENTRIES_MAX)
    expect(() => readRateLimitRequest({ descriptors: [{ entries }] })).toThrow('too many entries')
  })
})

test('a response in JSON has names for enums and no defaults', () => {
  const limit = { requestsPerUnit: 1, unit: 'minute', name: '' } as const
  const named = { requestsPerUnit: 2 ** 40, unit: 'unknown', name: 'n' } as const
  const statuses = [
    { code: 'over-limit', currentLimit: limit, limitRemaining: 0, resetSeconds: 17 },
    { code: 'ok', currentLimit: named, limitRemaining: 2 ** 40, resetSeconds: 0 },
    { code: 'ok', currentLimit: undefined, limitRemaining: 0, resetSeconds: undefined },
  ] as const
  const json = rateLimitResponseJson({
    overallCode: 'over-limit',
    statuses,
    responseHeaders: ['x-a', '1', 'x-b', ''],
    requestHeaders: ['x-c', '3'],
    rawBody: 'né',
    dynamicMetadata: { domain: 'd', list: [1, null] },
  })
  expect(json).toEqual({
    overallCode: 'OVER_LIMIT',
    statuses: [
      {
        code: 'OVER_LIMIT',
        currentLimit: { requestsPerUnit: 1, unit: 'MINUTE' },
        durationUntilReset: '17s',
      },
      {
        code: 'OK',
        currentLimit: { name: 'n', requestsPerUnit: 4294967295 },
        limitRemaining: 4294967295,
        durationUntilReset: '0s',
      },
      { code: 'OK' },
    ],
    responseHeadersToAdd: [{ key: 'x-a', value: '1' }, { key: 'x-b' }],
    requestHeadersToAdd: [{ key: 'x-c', value: '3' }],
    rawBody: Buffer.from('né').toString('base64'),
    dynamicMetadata: { domain: 'd', list: [1, null] },
  })
})

test('an empty response in JSON has only its code', () => {
  const json = rateLimitResponseJson({
    overallCode: 'ok',
    statuses: [],
    responseHeaders: [],
    requestHeaders: [],
    rawBody: '',
    dynamicMetadata: undefined,
  })
  expect(json).toEqual({ overallCode: 'OK' })
})

import { CALLS_MAX } from '@sluice/api'
import { SluiceError } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { CHECK_FIELDS, PEEK_FIELDS, readCall, readCalls, readRefund } from './read-call.js'

/** The code and message of the refusal of a text. */
function problemOf(read: () => unknown): string {
  try {
    read()
  } catch (error) {
    if (error instanceof SluiceError) return `${error.code} ${error.message}`
    throw error
  }
  return 'none'
}

const readText = (json: string) => readCall(JSON.parse(json), CHECK_FIELDS)
const withCost = (cost: string) => `{"attributes":{},"cost":${cost}}`
const withValue = (value: string) => `{"attributes":{"user":${value}}}`

describe('a call', () => {
  test.each([
    '{"attributes":{}}',
    '{"attributes":{"user":"u1"},"cost":0}',
    '{"attributes":{"user":"u1"},"cost":9007199254740991,"receipt":true,"canWait":false,"gate":true}',
    '{"attributes":{"user":1,"admin":true,"plan":null,"weight":1.5,"below":-5}}',
    '{"attributes":{"__proto__":"a","constructor":"b","toString":"c","hasOwnProperty":"d"}}',
  ])('may be %s', (json) => {
    expect(readText(json)).toEqual(JSON.parse(json))
  })

  test.each([
    [
      'null',
      'CALL_INVALID body: found null; accepted: an object such as {"attributes":{"user":"u1"}}',
    ],
    [
      '"x"',
      'CALL_INVALID body: found "x"; accepted: an object such as {"attributes":{"user":"u1"}}',
    ],
    ['17', 'CALL_INVALID body: found 17; accepted: an object such as {"attributes":{"user":"u1"}}'],
    [
      '{}',
      'CALL_INVALID attributes: found nothing; accepted: an object of names and values such as {"user":"u1"}',
    ],
    [
      '{"attributes":[]}',
      'CALL_INVALID attributes: found a list; accepted: an object of names and values such as {"user":"u1"}',
    ],
    [
      '{"attributes":null}',
      'CALL_INVALID attributes: found null; accepted: an object of names and values such as {"user":"u1"}',
    ],
    [
      '{"attributes":{},"receipt":1}',
      'CALL_INVALID receipt: found 1; accepted: true, false or "if-delayed"',
    ],
    [
      '{"attributes":{},"canWait":"no"}',
      'CALL_INVALID canWait: found "no"; accepted: true or false',
    ],
    ['{"attributes":{},"gate":1}', 'CALL_INVALID gate: found 1; accepted: true or false'],
    [
      '{"attributes":{"":"x"}}',
      'CALL_INVALID attributes: found a name of 0 characters; accepted: 1 to 64',
    ],
  ])('may not be %s', (json, message) => {
    expect(problemOf(() => readText(json))).toBe(message)
  })

  test.each([
    ['atributes', 'attributes'],
    ['canwait', 'canWait'],
    ['costs', 'cost'],
  ])('with an unknown key %s is answered with the nearest known one', (key, meant) => {
    expect(problemOf(() => readText(`{"attributes":{},"${key}":1}`))).toBe(
      `CALL_INVALID body: found unknown key "${key}", did you mean "${meant}"?; accepted: attributes, cost, receipt, canWait, gate, policies`,
    )
  })

  test('with a key that is near to none is answered with the accepted keys', () => {
    const message = problemOf(() => readText('{"attributes":{},"__proto__":{}}'))
    expect(message).toBe(
      'CALL_INVALID body: found unknown key "__proto__"; accepted: attributes, cost, receipt, canWait, gate, policies',
    )
  })

  test('of peek has no receipt', () => {
    const message = problemOf(() => readCall({ attributes: {}, receipt: true }, PEEK_FIELDS))
    expect(message).toContain('unknown key "receipt"')
  })
})

describe('a cost', () => {
  test.each([
    ['"1"', '"1"'],
    ['"01"', '"01"'],
    ['"1e3"', '"1e3"'],
    ['" 1"', '" 1"'],
    ['"0x10"', '"0x10"'],
    ['"nan"', '"nan"'],
    ['"inf"', '"inf"'],
    ['1.5', '1.5'],
    ['-5', '-5'],
    ['1e400', 'Infinity'],
    ['9007199254740992', '9007199254740992'],
    ['9223372036854775807', '9223372036854776000'],
    ['null', 'null'],
    ['true', 'true'],
    ['[]', 'a list'],
    ['{}', 'an object'],
  ])('%s is refused', (json, found) => {
    expect(problemOf(() => readText(withCost(json)))).toBe(
      `CALL_COST_INVALID cost must be an integer between 0 and 2^53-1, got ${found}`,
    )
  })
})

describe('an attribute', () => {
  test.each([
    ['12345678901234567890', '12345678901234567000'],
    ['9007199254740993', '9007199254740992'],
    ['-9007199254740993', '-9007199254740992'],
    ['1e400', 'Infinity'],
    ['1e21', '1e+21'],
  ])('of %s is refused, because JSON parsing changes the number', (json, found) => {
    expect(problemOf(() => readText(withValue(json)))).toBe(
      `CALL_INVALID attributes.user: found ${found}; accepted: a number up to 2^53-1; write a longer one as text`,
    )
  })

  test.each([
    ['{}', 'an object'],
    ['[]', 'a list'],
    ['{"toString":1}', 'an object'],
  ])('of %s is refused', (json, found) => {
    expect(problemOf(() => readText(withValue(json)))).toBe(
      `CALL_INVALID attributes.user: found ${found}; accepted: text, a number, true or false; null for none`,
    )
  })

  test('is refused if its value is longer than 8,192 characters', () => {
    expect(problemOf(() => readText(withValue(`"${'x'.repeat(8192)}"`)))).toBe('none')
    expect(problemOf(() => readText(withValue(`"${'x'.repeat(8193)}"`)))).toBe(
      'CALL_ATTRIBUTE_TOO_LONG attributes.user: found 8193 characters; accepted: up to 8192',
    )
  })

  test('has a name of up to 64 characters, shown on one line', () => {
    const named = (name: string) => JSON.stringify({ attributes: { [name]: [] } })
    expect(problemOf(() => readText(named('x'.repeat(65))))).toBe(
      'CALL_INVALID attributes: found a name of 65 characters; accepted: 1 to 64',
    )
    expect(problemOf(() => readText(named('a\nb')))).toContain('attributes.a\\u000ab: found a list')
  })

  test('is one of at most 64', () => {
    const many = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`a${index}`, '']))
    expect(problemOf(() => readCall({ attributes: many(64) }, CHECK_FIELDS))).toBe('none')
    expect(problemOf(() => readCall({ attributes: many(65) }, CHECK_FIELDS))).toBe(
      'CALL_INVALID attributes: found 65 names; accepted: up to 64',
    )
  })
})

describe('a list of calls', () => {
  const good = { attributes: { user: 'u1' } }

  test('names the item that is invalid, and where', () => {
    expect(problemOf(() => readCalls([good, 5], CHECK_FIELDS))).toMatch(
      /^CALL_INVALID \[1\]: found 5/,
    )
    expect(problemOf(() => readCalls([good, good, { ...good, cost: '1' }], CHECK_FIELDS))).toMatch(
      /^CALL_COST_INVALID \[2\]\.cost must be/,
    )
    expect(problemOf(() => readCalls([{ attributes: { user: [] } }], CHECK_FIELDS))).toMatch(
      /^CALL_INVALID \[0\]\.attributes\.user: found a list/,
    )
    expect(problemOf(() => readCalls([{}], CHECK_FIELDS))).toMatch(
      /^CALL_INVALID \[0\]\.attributes: /,
    )
  })

  test('has at most 1,000 items', () => {
    const many = Array.from({ length: CALLS_MAX + 1 }, () => good)
    expect(readCalls(many.slice(1), CHECK_FIELDS)).toHaveLength(1000)
    expect(problemOf(() => readCalls(many, CHECK_FIELDS))).toBe(
      'CALL_INVALID body: found a list of 1001 items; accepted: up to 1000',
    )
  })
})

describe('a refund', () => {
  test('has a receipt or a call', () => {
    expect(readRefund({ receipt: '1~a' })).toBe('1~a')
    expect(readRefund({ attributes: {}, cost: 2 })).toEqual({ attributes: {}, cost: 2 })
  })

  test.each([
    ['{}', 'CALL_INVALID body: found no receipt; accepted: an object such as {"receipt":"..."}'],
    ['[]', 'CALL_INVALID body: found a list; accepted: an object such as {"receipt":"..."}'],
    ['{"receipt":5}', 'RECEIPT_INVALID receipt: found 5; accepted: text, as check gave it'],
    ['{"receipt":null}', 'RECEIPT_INVALID receipt: found null; accepted: text, as check gave it'],
    [
      '{"reciept":"x"}',
      'CALL_INVALID body: found unknown key "reciept", did you mean "receipt"?; accepted: receipt, attributes, cost',
    ],
    [
      '{"receipt":"x","attributes":{}}',
      'CALL_INVALID body: found attributes beside a receipt; accepted: it alone',
    ],
    [
      '{"receipt":"x","cost":1}',
      'CALL_INVALID body: found cost beside a receipt; accepted: it alone',
    ],
    [
      '{"cost":1}',
      'CALL_INVALID body: found no receipt; accepted: an object such as {"receipt":"..."}',
    ],
  ])('may not be %s', (json, message) => {
    expect(problemOf(() => readRefund(JSON.parse(json)))).toBe(message)
  })
})

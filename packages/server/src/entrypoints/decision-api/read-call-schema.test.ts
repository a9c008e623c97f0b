/**
 * Holds the reader of calls, which is written by hand, to the schemas of @sluice/api: both accept
 * and refuse the same JSON.
 */
import {
  ATTRIBUTE_NAME_LENGTH_MAX,
  ATTRIBUTES_MAX,
  CALLS_MAX,
  adminCheckInput,
  callInput,
  cancelInput,
  checkInput,
  extendInput,
  peekInput,
  refundInput,
  reserveInput,
  resetInput,
  settleInput,
} from '@sluice/api'
import { ATTRIBUTE_LENGTH_MAX, show, SluiceError } from '@sluice/core'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { propertyRuns } from '../../../../../tools/property-runs.js'
import {
  ADMIN_CHECK_FIELDS,
  CANCEL_FIELDS,
  CHECK_FIELDS,
  EXTEND_FIELDS,
  PEEK_FIELDS,
  PLAIN_FIELDS,
  RESERVE_FIELDS,
  RESET_FIELDS,
  readCall,
  readCalls,
  readRefund,
  readRefunds,
  readReservation,
  readReservations,
  SETTLE_FIELDS,
} from './read-call.js'

const listOf = (schema: z.ZodType) => z.array(schema).max(CALLS_MAX)
const isList = (sent: unknown): sent is readonly unknown[] => Array.isArray(sent)

const BODIES = [
  {
    name: 'check',
    schema: z.union([checkInput, listOf(checkInput)]),
    read: (sent: unknown) =>
      isList(sent) ? readCalls(sent, CHECK_FIELDS) : readCall(sent, CHECK_FIELDS),
  },
  {
    name: 'peek',
    schema: z.union([peekInput, listOf(peekInput)]),
    read: (sent: unknown) =>
      isList(sent) ? readCalls(sent, PEEK_FIELDS) : readCall(sent, PEEK_FIELDS),
  },
  {
    name: 'check of the admin API',
    schema: adminCheckInput,
    read: (sent: unknown) => readCall(sent, ADMIN_CHECK_FIELDS),
  },
  { name: 'explain', schema: callInput, read: (sent: unknown) => readCall(sent, PLAIN_FIELDS) },
  {
    name: 'refund',
    schema: z.union([refundInput, listOf(refundInput)]),
    read: (sent: unknown) => (isList(sent) ? readRefunds(sent) : readRefund(sent)),
  },
  { name: 'reset', schema: resetInput, read: (sent: unknown) => readCall(sent, RESET_FIELDS) },
  {
    name: 'reserve',
    schema: z.union([reserveInput, listOf(reserveInput)]),
    read: (sent: unknown) =>
      isList(sent) ? readCalls(sent, RESERVE_FIELDS) : readCall(sent, RESERVE_FIELDS),
  },
  {
    name: 'settle',
    schema: z.union([settleInput, listOf(settleInput)]),
    read: (sent: unknown) =>
      isList(sent) ? readReservations(sent, SETTLE_FIELDS) : readReservation(sent, SETTLE_FIELDS),
  },
  {
    name: 'extend',
    schema: z.union([extendInput, listOf(extendInput)]),
    read: (sent: unknown) =>
      isList(sent) ? readReservations(sent, EXTEND_FIELDS) : readReservation(sent, EXTEND_FIELDS),
  },
  {
    name: 'cancel',
    schema: z.union([cancelInput, listOf(cancelInput)]),
    read: (sent: unknown) =>
      isList(sent) ? readReservations(sent, CANCEL_FIELDS) : readReservation(sent, CANCEL_FIELDS),
  },
] as const

function isRead(read: (sent: unknown) => unknown, sent: unknown): boolean {
  try {
    read(sent)
    return true
  } catch (error) {
    if (error instanceof SluiceError) return false
    throw error
  }
}

/** The bodies for which reader and schema differ. */
function differences(json: string): readonly string[] {
  const sent: unknown = JSON.parse(json)
  return BODIES.flatMap(({ name, schema, read }) => {
    const isValid = schema.safeParse(sent).success
    return isRead(read, sent) === isValid
      ? []
      : [`${name}: the schema says ${isValid} to ${show(json, 500)}`]
  })
}

const attributesOf = (count: number) =>
  JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, i) => [`a${i}`, i])))
const withAttributes = (attributes: string) => `{"attributes":${attributes}}`
const withValue = (value: string) => withAttributes(`{"user":${value}}`)
const withName = (length: number) => withAttributes(`{"${'n'.repeat(length)}":"v"}`)
const withField = (field: string) => `{"attributes":{"user":"u1"},${field}}`
const listWith = (count: number) => `[${Array(count).fill(withValue('1')).join()}]`

const TABLE = [
  'null',
  'true',
  '1',
  '"text"',
  '{}',
  '[]',
  '[[]]',
  '[null]',
  withAttributes('{}'),
  withAttributes('null'),
  withAttributes('[]'),
  withAttributes('"u1"'),
  ...['""', '"u1"', '0', '-1.5', 'true', 'null', '[]', '{}', '1e300', '1e999', '5e-324'].map(
    withValue,
  ),
  ...['9007199254740991', '9007199254740992', '-9007199254740991', '-9007199254740992'].map(
    withValue,
  ),
  withValue(`"${'v'.repeat(ATTRIBUTE_LENGTH_MAX)}"`),
  withValue(`"${'v'.repeat(ATTRIBUTE_LENGTH_MAX + 1)}"`),
  withValue(`"${'\u{1f6a6}'.repeat(ATTRIBUTE_LENGTH_MAX / 2)}"`),
  withValue(`"${'\u{1f6a6}'.repeat(ATTRIBUTE_LENGTH_MAX / 2)}v"`),
  ...[0, 1, ATTRIBUTE_NAME_LENGTH_MAX, ATTRIBUTE_NAME_LENGTH_MAX + 1].map(withName),
  withAttributes(`{"${'\u{1f6a6}'.repeat(ATTRIBUTE_NAME_LENGTH_MAX / 2)}v":1}`),
  withAttributes('{"constructor":"a","toString":"b","hasOwnProperty":{}}'),
  ...[ATTRIBUTES_MAX, ATTRIBUTES_MAX + 1].map((count) => withAttributes(attributesOf(count))),
  ...['0', '1', '-1', '-0', '1.5', '"1"', 'null', '9007199254740991', '9007199254740992'].map(
    (cost) => withField(`"cost":${cost}`),
  ),
  ...[
    'receipt',
    'canWait',
    'gate',
    'policies',
    'rule',
    'constructor',
    '__proto__',
    'Attributes',
  ].flatMap((field) =>
    ['true', 'false', 'null', '"x"', '"if-delayed"', '1'].map((value) =>
      withField(`"${field}":${value}`),
    ),
  ),
  '{"receipt":"1~x"}',
  '{"receipt":""}',
  '{"receipt":null}',
  '{"receipt":"1~x","cost":1}',
  '{"cost":1}',
  ...[1, CALLS_MAX, CALLS_MAX + 1].map(listWith),
  `[${withValue('1')},${withValue('{}')}]`,
  `[{"receipt":"1~x"}]`,
  ...['"90s"', '90000', '1.5', 'true', 'null', '""'].map((ttl) => withField(`"ttl":${ttl}`)),
  ...['"k"', '""', '1', 'null', `"${'k'.repeat(257)}"`].map((key) =>
    withField(`"idempotencyKey":${key}`),
  ),
  '{"reservation":"r1~x"}',
  '{"reservation":null}',
  '[{"reservation":"r1~x"}]',
  '{"reservation":"r1~x","attributes":{"tokens":200}}',
  '{"reservation":"r1~x","attributes":{"tokens":{}}}',
  ...['0', '612', '-1', '1.5', '"1"', 'null', '[]', '{}', '{"tokens":1}', '{"tokens":-1}'].map(
    (actual) => `{"reservation":"r1~x","actual":${actual}}`,
  ),
  '{"reservation":"r1~x","actual":{"":1}}',
  '{"actual":612}',
  '{"reservation":"r1~x","actual":1,"attributes":{}}',
]

const oftenValid = <T>(valid: fc.Arbitrary<T>) =>
  fc.oneof({ arbitrary: valid, weight: 6 }, { arbitrary: fc.jsonValue(), weight: 1 })

const name = fc.oneof(
  fc.constantFrom('user', 'ip', 'path', 'constructor', ''),
  fc.string({ maxLength: ATTRIBUTE_NAME_LENGTH_MAX + 2 }),
)
const value = oftenValid<unknown>(
  fc.oneof(fc.string(), fc.double(), fc.integer(), fc.boolean(), fc.constant(null)),
)
// Schemas skip this name without looking at its value; the reader treats it as any other name.
const attributes = fc
  .dictionary(name, value, { maxKeys: 8 })
  .filter((all) => !Object.hasOwn(all, '__proto__'))
const call = fc.record(
  {
    attributes: oftenValid<unknown>(attributes),
    cost: oftenValid<unknown>(fc.maxSafeNat()),
    receipt: oftenValid<unknown>(fc.constantFrom(true, false, 'if-delayed')),
    canWait: oftenValid<unknown>(fc.boolean()),
    gate: oftenValid<unknown>(fc.boolean()),
    policies: oftenValid<unknown>(fc.boolean()),
    rule: oftenValid<unknown>(fc.string()),
    ttl: oftenValid<unknown>(fc.constantFrom('90s', 90_000)),
    idempotencyKey: oftenValid<unknown>(fc.string()),
    reservation: oftenValid<unknown>(fc.string()),
    actual: oftenValid<unknown>(
      fc.oneof(fc.maxSafeNat(), fc.dictionary(name, fc.maxSafeNat(), { maxKeys: 2 })),
    ),
    cots: fc.constant(1),
  },
  { requiredKeys: [] },
)
const body = fc.oneof(call, fc.array(call, { maxLength: 3 }), fc.jsonValue())

describe('the reader of calls', () => {
  test.each(TABLE.map((json) => ({ json, shown: json.slice(0, 60) })))(
    'agrees with the schemas about $shown',
    ({ json }) => {
      expect(differences(json)).toEqual([])
    },
  )

  test('accepts some bodies of each kind in the table, and refuses others', () => {
    for (const { read } of BODIES) {
      const results = TABLE.map((json) => isRead(read, JSON.parse(json)))
      expect(new Set(results)).toEqual(new Set([true, false]))
    }
  })

  test('agrees with the schemas about generated bodies', () => {
    fc.assert(
      fc.property(body, (sent) => {
        const [difference] = differences(JSON.stringify(sent))
        if (difference !== undefined) throw new Error(difference)
      }),
      { numRuns: propertyRuns(20_000) },
    )
  })
})

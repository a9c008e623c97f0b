import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { writeRule, writeYaml } from './yaml.js'

describe('writeRule', () => {
  test('a rule is written as in the documentation, without added fields', () => {
    const text = writeRule({
      overrideCount: 2,
      version: 12,
      mode: 'shadow',
      id: 'orders-per-user',
      description: 'What one user may do with orders.',
      match: { method: ['GET', 'POST'], path: '/v1/orders/:id', where: { plan: ['free'] } },
      by: ['user'],
      limits: ['10/second', { algorithm: 'gcra', max: 1000, window: '1h', name: 'hourly' }],
      tiers: { plan: { pro: ['100/second'], partner: [] } },
      candidate: { limits: ['5/second'] },
    })
    expect(text).toBe(`id: orders-per-user
description: What one user may do with orders.
match:
  method: [GET, POST]
  path: /v1/orders/:id
  where: { plan: [free] }
by: [user]
limits:
  - 10/second
  - { algorithm: gcra, max: 1000, window: 1h, name: hourly }
tiers:
  plan: { pro: [100/second], partner: [] }
candidate:
  limits: [5/second]
mode: shadow
`)
  })

  test('a multi-line description is written as a block', () => {
    expect(writeYaml({ description: 'one\n\ntwo' })).toBe('description: |-\n  one\n\n  two\n')
  })

  test('text that YAML would read as something else is quoted', () => {
    for (const text of ['no', '0123', '1e3', '12:30', '', ' a', 'a: b', 'a #b', '*x', '-', '!t']) {
      expect(writeYaml({ plan: text })).toBe(`plan: ${JSON.stringify(text)}\n`)
    }
  })
})

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }).map((each) => each.toWellFormed()),
  fc.string({ maxLength: 120 }),
  fc.constantFrom(
    'a: b',
    'a:b',
    "it's",
    "'",
    '~',
    '<<',
    '=',
    '- a',
    'x\n\ny\n',
    'x\n',
    '\n',
    'x \ny',
  ),
)
const value = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    text,
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((each) => each + 0),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 5 }),
    fc.dictionary(text, tie('value'), { maxKeys: 5 }),
  ),
})).value

test('written values are parsed back unchanged', () => {
  fc.assert(
    fc.property(value, (given) => {
      expect(parse(writeYaml(given), { maxAliasCount: 0 })).toEqual(given)
    }),
  )
})

test('written values are parsed back unchanged by YAML 1.1', () => {
  fc.assert(
    fc.property(value, (given) => {
      expect(parse(writeYaml({ id: given }), { version: '1.1', merge: false })).toEqual({
        id: given,
      })
    }),
  )
})

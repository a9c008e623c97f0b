import { readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { parseRules } from '../rules/parse-rules.js'
import { parseData } from '../rules/parse-data.js'
import { writeRuleYaml, writeYaml } from './write-yaml.js'
import { propertyRuns } from '../../../../tools/property-runs.js'

const VALID = new URL('../../../../conformance/rules/valid/', import.meta.url)
const lines = (...all: readonly string[]) => `${all.join('\n')}\n`

test('rules are written in the usual style', () => {
  const rule = {
    id: 'orders-per-user',
    description: 'Orders, per user: the rest is in the guide',
    match: { method: ['GET', 'POST'], path: '/v1/orders/*', where: { ip: ['203.0.113.0/24'] } },
    by: ['user'],
    limits: ['10/second', { algorithm: 'gcra', max: 1000, window: '1h', name: 'hourly' }],
    tiers: { plan: { pro: ['100/second'], partner: [] } },
    cost: undefined,
    hedge: true,
  }
  expect(writeYaml({ routes: ['GET /v1/orders/:id'], rules: [rule] })).toBe(
    lines(
      "routes: ['GET /v1/orders/:id']",
      'rules:',
      '  - id: orders-per-user',
      "    description: 'Orders, per user: the rest is in the guide'",
      '    match:',
      '      method: [GET, POST]',
      '      path: /v1/orders/*',
      '      where:',
      '        ip: [203.0.113.0/24]',
      '    by: [user]',
      '    limits:',
      '      - 10/second',
      '      - algorithm: gcra',
      '        max: 1000',
      '        window: 1h',
      '        name: hourly',
      '    tiers:',
      '      plan:',
      '        pro: [100/second]',
      '        partner: []',
      '    hedge: true',
    ),
  )
})

test('a list too long for one line is written one item per line', () => {
  const users = Array.from({ length: 20 }, (_, n) => `user-${n}`)
  expect(writeYaml({ users }).split('\n')).toHaveLength(22)
})

test('a multi-line text is written as a block', () => {
  expect(writeYaml({ description: 'one\n\n  two # no comment' })).toBe(
    lines('description: |-', '  one', '', '    two # no comment'),
  )
  expect(writeYaml(['one\n'])).toBe(lines('- |', '  one'))
})

describe('text that a parser could read as another type is quoted', () => {
  const words =
    'no Yes ON off y N true False null NULL ~ * *a &a !a << = - #a @a `a %a | > [a] {a --- ...'
  const numbers = '1e3 0123 0o17 0x1f 1_000 +1 -1 .5 .inf .NaN 1. 5 1.2e+3 e0 203.0.113.7'
  const times = '12:30 12:30:45 2026-12-31 2026-12-31T18:00:00Z'
  const spaced = '|- a|? a|: a|a: b|a #b|a, b| a|a |/v1/:id|"a"|it\'s|a\\b'.split('|')
  const unseen = ['a\tb', 'a\u2028b', '\ufeffa', 'a\u0000', '\ud800', 'a\u0085b', 'a\u00a0']
  const texts = [...`${words} ${numbers} ${times}`.split(' '), ...spaced, ...unseen]
  test.each(texts.map((text) => [JSON.stringify(text), text]))('%s', (_, text) => {
    for (const value of [text, [text], { [text]: text }, { a: [text, text] }]) {
      const written = writeYaml(value)
      expect(written).toMatch(/["']/)
      expect(parseData(written)).toEqual({ value, problems: [] })
      expect(parse(written, { version: '1.1' })).toEqual(value)
    }
  })
})

test('keys of any length and content are written and read back', () => {
  const value = { ['k'.repeat(5000)]: { ['\n'.repeat(1024)]: [1, ['a', {}]] }, constructor: 'x' }
  expect(parseData(writeYaml(value))).toEqual({ value, problems: [] })
})

test('a value that JSON cannot represent is refused', () => {
  expect(() => writeYaml(Number.NaN)).toThrow('YAML: found NaN')
  expect(() => writeYaml({ a: [1n] })).toThrow('YAML: found a value of type bigint')
  const itself: unknown[] = []
  itself.push(itself)
  expect(() => writeYaml(itself)).toThrow('YAML: found more than 64 levels')
})

describe('a rule for an editor', () => {
  test('a rule is written as in the documentation, without added fields', () => {
    const text = writeRuleYaml({
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
    expect(writeYaml({ description: 'one\n\ntwo' }, 'compact')).toBe(
      'description: |-\n  one\n\n  two\n',
    )
  })

  test('text that YAML would read as something else is quoted', () => {
    for (const text of ['no', '0123', '1e3', '12:30', '', ' a', 'a: b', 'a #b', '*x', '-', '!t']) {
      expect(writeYaml({ plan: text }, 'compact')).toBe(`plan: '${text}'\n`)
    }
  })
})

const unit = fc.oneof(
  fc.constantFrom(...' :#-*&!|>\'"%@`{}[],?~\n\t\r\\/.0123456789eExyno'.split('')),
  fc.nat(0xffff).map((code) => String.fromCharCode(code)),
)
const text = fc.string({ unit, maxLength: 12 })
const number = fc.double({ noNaN: true, noDefaultInfinity: true }).map((any) => any + 0)
const scalar = fc.oneof(text, number, fc.integer(), fc.boolean(), fc.constant(null))
const { node } = fc.letrec<{ node: unknown }>((tie) => ({
  node: fc.oneof(
    { maxDepth: 4 },
    scalar,
    fc.array(tie('node'), { maxLength: 4 }),
    fc.dictionary(text, tie('node'), { maxKeys: 4 }),
  ),
}))
/**
 * Round-trips through JSON, which normalizes objects without prototype or with a `__proto__` key.
 */
const asJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value))
/** Whether a number is written with an exponent, which reads back in another form. */
const hasExponent = (value: unknown) => /[\d]e[+-]\d/.test(JSON.stringify(value))

describe('the written text reads back as the same value', () => {
  test('with parsers of YAML 1.2 and 1.1, for any value', () => {
    const style = fc.constantFrom('block' as const, 'compact' as const)
    const property = fc.property(node.map(asJson), style, (value, each) => {
      const written = writeYaml(value, each)
      expect(parse(written, { schema: 'core' })).toEqual(value)
      expect(parse(written, { version: '1.1' })).toEqual(value)
    })
    fc.assert(property, { numRuns: propertyRuns(2000) })
  })

  test('with parseData', () => {
    const values = node.map(asJson).filter((value) => !hasExponent(value))
    const property = fc.property(values, (value) => {
      expect(parseData(writeYaml(value))).toEqual({ value, problems: [] })
    })
    fc.assert(property, { numRuns: propertyRuns(1000) })
  })

  test.each(readdirSync(VALID))('%s: parses to the same rules', (name) => {
    const source = readFileSync(new URL(name, VALID), 'utf8')
    const { value } = parseData(source)
    expect(value).toBeDefined()
    const written = writeYaml(value)
    expect(parseData(written).value).toEqual(value)
    const rules = parseRules(written)
    expect(rules.errors).toEqual([])
    expect(rules.rules).toEqual(parseRules(source).rules)
    expect(rules.rules).toEqual(parseRules(value as object).rules)
  })
})

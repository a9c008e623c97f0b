/** The quick reader against the `yaml` package: what it reads, it reads alike, to the column. */
import { readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readDocument } from './document.js'
import { readPlainYaml } from './plain-yaml.js'

const FOLDER = new URL('../../../../conformance/rules/', import.meta.url)
const GOOD = readdirSync(new URL('valid/', FOLDER)).map((name) => `valid/${name}`)
const BAD = readdirSync(FOLDER).filter((name) => name.endsWith('.yaml'))
const TEXTS = [...GOOD, ...BAD]
  .map((name) => readFileSync(new URL(name, FOLDER), 'utf8'))
  .filter((text) => text.length < 5000)

const RUNS = 1000

/** Whether it was read at all. */
function expectAgreement(text: string): boolean {
  const root = readPlainYaml(text)
  if (root !== undefined) expect({ root }).toEqual(readDocument(text))
  return root !== undefined
}

describe('reads what rule files are made of', () => {
  test.each([
    'rules: []',
    '# first\n\nrules: # here\n\n  # there\n  - id: a\n    by: [ip]   # and here\n# last',
    'rules:\n- id: a\n  limits:\n  - 10/second\n  - { max: 1, window: 1s }\n',
    'a: /v1/orders/:id\nb: /v1/*\nc: 10 per minute, or so; (not "more")\nd: -1/second\ne: a:b',
    "'a b': 'x'\n\"c\": \"it's\"\n1: 2",
    'a: 10\nb: -1\nc: true\nd: null\ne: nullable\nf: 1s\ng: 2026-12-31T18:00:00Z',
    '{"a":[1,"b",{"c":null}],"d":{}}',
    '{\n\t"a": [\n\t\t1,\n\t\t"b"\n\t]\n}\n',
    'a: { b: [c, d e, ], f: { g: h } }',
    'a: 1\nb: 2\na: 3\n',
    'a:\n  b:\n  - c: d\n  e: f\ng: h\n',
  ])('%j', (text) => {
    expect(expectAgreement(text)).toBe(true)
  })
})

describe('leaves the rest to the package', () => {
  test.each([
    '',
    'a',
    'a:',
    'a: b: c',
    'a: b\n  c',
    'a: |\n  b',
    'a: &b c',
    '*a',
    '!a b',
    '? a',
    '---\na: 1',
    'a: 1\n...',
    '%YAML 1.2',
    'a: 01',
    'a: 1e3',
    'a: 0x1',
    'a: 1.5',
    'a: TRUE',
    'a: ~',
    'a: "\\n"',
    "a: 'it''s'",
    'a: é',
    'a: 1\r\n',
    'a:\t1',
    '\ta: 1',
    'a: [1\n, 2]',
    'a: [b: c]',
    'a: [1 2 # 3\n]',
    'a: {b}',
    'a: {b: }',
    'a: [,]',
    '- - a',
    '-\n  a: 1',
    'a: 1\n b: 2',
    'a:\n  - b: c\n  d: e',
    '- a: b\n  - c',
    'a:\n    b: 1\n  c: 2',
    'a: "b" c',
    'a : 1',
    '<<: 1',
  ])('%j', (text) => {
    expect(readPlainYaml(text)).toBeUndefined()
  })

  test('nesting and floods', () => {
    expect(readPlainYaml('['.repeat(17) + ']'.repeat(17))).toBeUndefined()
    expect(readPlainYaml(`[${'1,'.repeat(1_000_001)}]`)).toBeUndefined()
    for (const unit of ['a', ' ', '\n', '# a', '#\n', 'a: ', '"a', '- ', 'a b']) {
      const flood = unit.repeat(1_000_000)
      for (const text of [flood, `a: ${flood}`, `[${flood}`]) {
        expect(readPlainYaml(text)?.kind).not.toBe('list')
      }
    }
  })
})

const piece = fc.constantFrom(
  ...'- [ ] { } , & * ! | > ? : # " \' % @ ` ~ = . / \\ -'.split(' '),
  ...'a|b c|a: |a: b|- |- a|\n|\n|\n  |\n  |\n    |\n  - |\n- |  |\t|1|-1|1.5|0x1|1e3|null|true|True|~'.split(
    '|',
  ),
  ...'"a"|"a b"|\'a\'|"a":|[a, b]|{a: b}|{a: [b]}| # c|# c|a:b|a#b|:a|é|\r\n|---|...|<<: '.split(
    '|',
  ),
)

describe('agrees with the package wherever it reads at all', () => {
  test('on text made of pieces of YAML', () => {
    let read = 0
    const text = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''))
    const property = fc.property(text, (any) => {
      if (expectAgreement(any)) read++
    })
    fc.assert(property, { numRuns: 4 * RUNS })
    expect(read).toBeGreaterThan(0)
  })

  test('on rules with a piece put in or cut out', () => {
    const edit = fc.record({
      text: fc.constantFrom(...TEXTS),
      at: fc.double({ min: 0, max: 1, noNaN: true }),
      cut: fc.nat(8),
      put: piece,
    })
    let read = 0
    const property = fc.property(edit, ({ text, at, cut, put }) => {
      const start = Math.floor(at * text.length)
      if (expectAgreement(text.slice(0, start) + put + text.slice(start + cut))) read++
    })
    fc.assert(property, { numRuns: RUNS })
    expect(read).toBeGreaterThan(RUNS / 20)
  })

  test('on JSON', () => {
    const indent = fc.constantFrom(undefined, 2, '\t')
    const property = fc.property(fc.jsonValue(), indent, (value, space) => {
      expectAgreement(JSON.stringify(value, null, space))
    })
    fc.assert(property)
  })
})

import { readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseRules } from './parse-rules.js'
import { propertyRuns } from '../../../../tools/property-runs.js'

const FOLDER = new URL('../../../../conformance/rules/', import.meta.url)
const TEXTS = ['', 'valid/'].flatMap((folder) =>
  readdirSync(new URL(folder, FOLDER))
    .filter((name) => name.endsWith('.yaml'))
    .map((name) => readFileSync(new URL(folder + name, FOLDER), 'utf8'))
    .filter((text) => text.length < 5000),
)

const RUNS = propertyRuns(500)

/** Checks that every problem is complete and on one line. */
function checkProblems(source: string | object): void {
  const { rules, errors, warnings } = parseRules(source, { file: 'x.yaml' })
  expect(rules === undefined).toBe(errors.length > 0)
  for (const { field, found, accepted, message, line } of [...errors, ...warnings]) {
    expect(field).not.toBe('')
    expect(found).not.toBe('')
    expect(accepted).not.toBe('')
    expect(found.length).toBeLessThanOrEqual(64)
    expect(message).toMatch(/^x\.yaml:[^\p{Cc}\u2028\u2029]+$/u)
    expect(message.length).toBeLessThan(2000)
    if (line !== undefined) expect(line).toBeGreaterThan(0)
  }
}

const piece = fc.constantFrom(
  ...'rules: routes: id: limits: by: match: where: tiers: - [ ] { } , & * ! | > ? : # " \' % @ ` --- ...'.split(
    ' ',
  ),
  ...' |  |    |\n|\n  |\n  - |\n    |\t|a|one|&a |*a|!!x |10/second|1s|null|true|-1|1e3|.inf|/v1/:id|"'.split(
    '|',
  ),
)
const name = fc.constantFrom(
  ...'id description match by limits tiers candidate overrides cost mode coordination posture'.split(
    ' ',
  ),
  ...'method path where algorithm max window zone start burst queue maxWait wait name onRefusal debt'.split(
    ' ',
  ),
  ...'caller until attribute local plan ip user routes strictPaths rules hedge'.split(' '),
  ...'maxStranded syncEvery'.split(' '),
)
const value = fc.oneof(
  fc.constantFrom(
    'one',
    'GET',
    '/v1/:id',
    '10/second',
    '1s',
    'gcra',
    'leaky-bucket',
    'leased',
    'local',
    'split',
    '5%',
    'open',
  ),
  fc.constantFrom(null, true, 0, 1, 10, 0.5, -1, 1e21),
  fc.string(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
)
/** JSON with the field names of rules, so that its values are checked and not only its keys. */
const { document } = fc.letrec<{ node: unknown; document: object }>((tie) => ({
  node: fc.oneof(
    { maxDepth: 5 },
    value,
    fc.array(tie('node'), { maxLength: 4 }),
    fc.dictionary(fc.oneof(name, fc.string({ maxLength: 5 })), tie('node'), { maxKeys: 6 }),
  ),
  document: fc.array(fc.dictionary(name, tie('node'), { maxKeys: 8 }), { maxLength: 3 }),
}))

describe('parseRules never throws, and reports complete problems', () => {
  test('on any text', () => {
    const unit = fc.nat(0xffff).map((code) => String.fromCharCode(code))
    fc.assert(fc.property(fc.string({ unit, maxLength: 100 }), checkProblems))
  })

  test('on text made of pieces of YAML', () => {
    const text = fc.array(piece, { maxLength: 60 }).map((pieces) => pieces.join(''))
    fc.assert(fc.property(text, checkProblems), { numRuns: RUNS })
  })

  test('on valid and invalid rules with a piece inserted or removed', () => {
    const edit = fc.record({
      text: fc.constantFrom(...TEXTS),
      at: fc.double({ min: 0, max: 1, noNaN: true }),
      cut: fc.nat(20),
      put: piece,
    })
    const edited = edit.map(({ text, at, cut, put }) => {
      const start = Math.floor(at * text.length)
      return text.slice(0, start) + put + text.slice(start + cut)
    })
    fc.assert(fc.property(edited, checkProblems), { numRuns: RUNS })
  })

  test('on any JSON value', () => {
    const json = fc.jsonValue().filter((any) => typeof any !== 'string')
    fc.assert(fc.property(json, (any) => checkProblems(any as object)))
  })

  test('on JSON with the field names of rules', () => {
    fc.assert(fc.property(document, checkProblems), { numRuns: RUNS })
  })
})

test('text and equal objects have the same problems', () => {
  const messages = (source: string | object) => {
    const { rules, errors, warnings } = parseRules(source)
    const problems = [...errors, ...warnings].map(
      ({ code, field, found }) => `${code} ${field} ${found}`,
    )
    return { rules, problems: problems.sort() }
  }
  const property = fc.property(document, (any) => {
    expect(messages(JSON.stringify(any))).toEqual(messages(any))
  })
  fc.assert(property, { numRuns: RUNS })
})

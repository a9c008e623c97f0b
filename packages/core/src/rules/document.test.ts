/**
 * Bounds the cost of a text before it is refused. Work is bounded by how far a text is read, so the
 * tests check where the reading stopped and measure no time.
 */
import { describe, expect, test } from 'vitest'
import { ALIASED_VALUES_MAX, ALIASES_MAX, readDocument } from './document.js'
import { parseRules } from './parse-rules.js'
import { DEPTH_MAX, type TreeProblem } from './tree.js'
import { VALUES_MAX, readValue } from './object-tree.js'

const TEN_MEGABYTES = 10_000_000
const fill = (unit: string, length = TEN_MEGABYTES) => unit.repeat(Math.floor(length / unit.length))

function refusal(text: string): TreeProblem {
  const { problems } = readDocument(text)
  if (problems?.[0] === undefined) throw new Error('not refused')
  return problems[0]
}

describe('a ten-megabyte bomb is refused within its first kilobyte', () => {
  test.each([
    ['lists in lists', fill('['), 'too-deep'],
    ['maps in maps', fill('{a: '), 'too-deep'],
    ['dashes on a line', fill('- '), 'too-deep'],
    ['unlimited nested keys', fill('? '), 'too-deep'],
    ['aliases', `a: &a x\nb: [${fill('*a, ')}]`, 'too-many-aliases'],
    ['tags', fill('!a '), 'unsupported-yaml'],
    ['directives', fill('%a\n'), 'unsupported-yaml'],
    ['documents', fill('---\n'), 'unsupported-yaml'],
    ['closing brackets', fill(']'), 'bad-yaml'],
  ])('%s', (_, text, code) => {
    const problem = refusal(text)
    expect(problem.code).toBe(code)
    expect(problem.at).toBeLessThan(1000)
  })

  test('ten thousand levels of indentation', () => {
    const lines = Array.from({ length: 10_000 }, (_, depth) => `${' '.repeat(depth)}a:\n`)
    const problem = refusal(lines.slice(0, 4000).join(''))
    expect(problem.code).toBe('too-deep')
    expect(problem.at).toBeLessThan(1000)
  })
})

test('a flood of tokens is refused at the token limit', () => {
  for (const text of [`[${fill('1,')}`, fill('-\n'), fill('\n'), fill('a:\n')]) {
    const [problem] = readDocument(text, { tokensMax: 1000 }).problems ?? []
    expect(problem?.found).toBe('more than 1000 tokens')
    expect(problem?.at).toBeLessThanOrEqual(2000)
  }
})

test('reading stops after twenty syntax errors', () => {
  expect(readDocument(`[${fill('"a" ', 200_000)}`).problems).toHaveLength(20)
})

test('a single text of ten megabytes is read, and refused as rules', () => {
  for (const text of [fill('a'), fill(' ')]) {
    expect(parseRules(text).errors.map(({ code }) => code)).toEqual(['wrong-type'])
  }
})

describe('depth', () => {
  const nest = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)

  test(`${DEPTH_MAX} levels are read, one more is not`, () => {
    expect(readDocument(nest(DEPTH_MAX)).problems).toBeUndefined()
    expect(refusal(nest(DEPTH_MAX + 1)).code).toBe('too-deep')
  })

  test('a caller may accept another depth', () => {
    const bounds = { depthMax: 68 }
    expect(readDocument(nest(68), bounds).problems).toBeUndefined()
    expect(readDocument(nest(69), bounds).problems?.[0]).toMatchObject({
      code: 'too-deep',
      found: 'more than 68 levels',
    })
  })

  test('includes the depth of aliased values', () => {
    const text = (levels: number) => `a: &a ${nest(8)}\nb: ${nest(levels).replace('[]', '[*a]')}`
    expect(readDocument(text(7)).problems).toBeUndefined()
    expect(refusal(text(8)).code).toBe('too-deep')
  })

  test('is the same for objects, and a cyclic object is too deep', () => {
    const nestValue = (levels: number): unknown => (levels === 1 ? [] : [nestValue(levels - 1)])
    expect(readValue(nestValue(DEPTH_MAX)).problems).toBeUndefined()
    expect(readValue(nestValue(DEPTH_MAX + 1)).problems?.[0]?.code).toBe('too-deep')
    const circle: unknown[] = []
    circle.push(circle)
    expect(readValue(circle).problems?.[0]?.code).toBe('too-deep')
  })
})

describe('aliases', () => {
  test(`${ALIASES_MAX} are read, one more is not`, () => {
    const text = (count: number) => `a: &a x\nb: [${'*a, '.repeat(count)}]`
    expect(readDocument(text(ALIASES_MAX)).problems).toBeUndefined()
    expect(refusal(text(ALIASES_MAX + 1)).code).toBe('too-many-aliases')
  })

  test(`may expand to ${ALIASED_VALUES_MAX} values in total, however few aliases there are`, () => {
    const tens = Array.from({ length: 9 }, (_, level) => {
      const items = Array.from({ length: 10 }, () => (level === 0 ? 'x' : `*a${level - 1}`))
      return `a${level}: &a${level} [${items.join(', ')}]`
    })
    expect(readDocument(tens.slice(0, 4).join('\n')).problems).toBeUndefined()
    const problem = refusal(tens.join('\n'))
    expect(problem.code).toBe('too-many-aliases')
    expect(problem.found).toContain(String(ALIASED_VALUES_MAX))
  })

  test('a shared object is counted at every occurrence', () => {
    let value: unknown = ['x']
    for (let level = 0; level < 10; level++) value = Array.from({ length: 10 }, () => value)
    const [problem] = readValue(value).problems ?? []
    expect(problem?.found).toBe(`more than ${VALUES_MAX} values`)
  })

  test.each(['*a', 'a: &a [*a]', '[*a, &a x]'])(
    '%s: an alias without an anchor is invalid YAML',
    (text) => {
      expect(refusal(text).code).toBe('bad-yaml')
    },
  )
})

describe('only the common subset of YAML and JSON is read', () => {
  test.each(['!!js/function x', '!!binary eA==', '!!str x', '! x', '- !x {}'])(
    'tag: %s',
    (text) => {
      expect(refusal(text).code).toBe('unsupported-yaml')
    },
  )

  test('a key is its text, and `<<` merges nothing', () => {
    const { root } = readDocument('a: &a { b: 1 }\n<<: *a\n404: x\ntrue: x\n0x1F: x\n"": x')
    expect(root?.kind === 'map' && [...root.entries.keys()]).toEqual([
      'a',
      '<<',
      '404',
      'true',
      '0x1F',
      '',
    ])
  })

  test('boolean words of YAML 1.1 are text', () => {
    const { root } = readDocument('[yes, no, on, off, 1_000, 12:30:00, 2026-12-31, 0o17, ~, True]')
    const values =
      root?.kind === 'list' && root.items.map((item) => item.kind === 'scalar' && item.value)
    expect(values).toEqual([
      'yes',
      'no',
      'on',
      'off',
      '1_000',
      '12:30:00',
      '2026-12-31',
      15,
      null,
      true,
    ])
  })

  test('JSON may be indented with tabs', () => {
    const text = JSON.stringify({ rules: [{ id: 'a', limits: ['1/second'] }] }, null, '\t')
    expect(parseRules(text).errors).toEqual([])
  })
})

test('a map with many keys is read in one pass, and its repeated keys are found', () => {
  const keys = Array.from({ length: 20_000 }, (_, index) => `k${index}: 1\n`)
  const { root } = readDocument(`${keys.join('')}k7: 2\n`)
  expect(root?.kind === 'map' && root.repeated.map(({ key }) => key)).toEqual(['k7'])
})

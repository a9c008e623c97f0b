import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { ALIASED_VALUES_MAX, TEXT_LENGTH_MAX } from './document.js'
import { parseRules } from './parse-rules.js'
import { parseData } from './parse-data.js'

const FOLDER = new URL('../../../../conformance/rules/', import.meta.url)

test('YAML and JSON are parsed to their value', () => {
  const value = { rules: [{ id: 'a', by: [], cost: 1, tag: true, description: null }] }
  const yaml = '\ufeffrules:\n  - { id: a, by: [], cost: 1, tag: true, description: }\n'
  expect(parseData(yaml)).toEqual({ value, problems: [] })
  expect(parseData(JSON.stringify(value))).toEqual({ value, problems: [] })
  expect(parseData('')).toEqual({ value: null, problems: [] })
})

test('__proto__ is a key like any other', () => {
  const { value } = parseData('{"__proto__": {"polluted": 1}, "constructor": 2}')
  expect(Object.keys(value as object)).toEqual(['__proto__', 'constructor'])
  expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  expect(parseRules(value as object).errors.map(({ field }) => field)).toContain('__proto__')
})

test('each alias is a separate copy', () => {
  const { value } = parseData('a: &a [1]\nb: *a\n') as { value: Record<string, number[]> }
  value['a']?.push(2)
  expect(value).toEqual({ a: [1, 2], b: [1] })
})

describe('text that is refused in a rules file is refused here, with its position', () => {
  const ten = (name: string, of: string) => `${name}: &${name} [${`${of},`.repeat(10)}]\n`
  test.each([
    ['a text that is too large', ' '.repeat(TEXT_LENGTH_MAX + 1), 'too-large'],
    ['unlimited nesting', '['.repeat(1000), 'too-deep'],
    ['a tag', 'a: !!js x', 'unsupported-yaml'],
    ['two documents', 'a\n---\nb', 'unsupported-yaml'],
    ['a key given twice', 'a:\n  b: 1\n  b: 2', 'duplicate-key'],
    ['a key that is a list', '[a]: 1', 'bad-key'],
    ['bad syntax', 'a: [', 'bad-yaml'],
    [
      `more than ${ALIASED_VALUES_MAX} aliased values`,
      [ten('a', '1'), ten('b', '*a'), ten('c', '*b'), ten('d', '*c'), ten('e', '*d')].join('') +
        ten('f', '*e'),
      'too-many-aliases',
    ],
  ])('%s', (_, text, code) => {
    const { value, problems } = parseData(text, { file: 'x.yaml' })
    expect(value).toBeUndefined()
    expect(problems.map((problem) => problem.code)).toContain(code)
    expect(problems[0]?.message).toMatch(/^x\.yaml:\d+:\d+: /)
  })

  test('the position is that of the second key', () => {
    const [problem] = parseData('rules:\n  - id: a\n    id: b\n', { file: 'x.yaml' }).problems
    expect(problem?.message).toBe(
      'x.yaml:3:5: rules[0].id: key "id" is given twice. Accepted: each key once',
    )
  })
})

test.each(['007', '1e3', '12345678901234567890', '.inf', '0x10', '1.0'])(
  'the number %s, which would be written back differently, is refused',
  (number) => {
    const [problem] = parseData(`caller:\n  user: ${number}`).problems
    expect(problem).toMatchObject({ code: 'bad-value', field: 'caller.user', found: number })
  },
)

describe('rules parsed from a value have the problems of the text, without positions', () => {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith('.yaml'))
  test.each(names)('%s', (name) => {
    const text = readFileSync(new URL(name, FOLDER), 'utf8')
    const messages = (source: string | object) => {
      const { errors, warnings } = parseRules(source)
      return [...errors, ...warnings].map(({ message }) => message.replace(/^\d+:\d+: /, '')).sort()
    }
    const { value, problems } = parseData(text)
    if (problems.length === 0) expect(messages(value as object)).toEqual(messages(text))
    else expect(parseRules(text).errors).not.toEqual([])
  })
})

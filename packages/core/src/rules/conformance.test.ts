/** Every problem code has a file of invalid rules of its name, with the expected messages. */
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { TEXT_LENGTH_MAX } from './document.js'
import { parseRules } from './parse-rules.js'
import { PROBLEMS, type ProblemCode } from './diagnostics.js'

const FOLDER = new URL('../../../../conformance/rules/', import.meta.url)

/** Codes whose text is generated here, and why it is not a file. */
const MADE: Partial<Record<ProblemCode, { readonly reason: string; readonly text: () => string }>> =
  {
    'too-large': {
      reason: 'the file would have 16 MiB',
      text: () => ' '.repeat(TEXT_LENGTH_MAX + 1),
    },
  }

/** Codes that always occur together with another. */
const COMPANIONS: Partial<Record<ProblemCode, ProblemCode>> = {
  'more-problems': 'unknown-key',
}

const codes = Object.keys(PROBLEMS) as ProblemCode[]
const namesOf = (folder: URL, ending: string) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(ending))
    .map((name) => name.slice(0, -ending.length))
const readFixture = (name: string) => readFileSync(new URL(name, FOLDER), 'utf8')

describe('invalid rules', () => {
  test('each problem code has a file or a reason for none, and each file has a code', () => {
    const filed = codes.filter((code) => MADE[code] === undefined).sort()
    expect(namesOf(FOLDER, '.yaml').sort()).toEqual(filed)
    expect(namesOf(FOLDER, '.txt').sort()).toEqual(filed)
  })

  test.each(namesOf(FOLDER, '.yaml'))('%s: the messages equal those in the file', (name) => {
    const file = `${name}.yaml`
    const { errors, warnings } = parseRules(readFixture(file), { file })
    const problems = [...errors, ...warnings]
    const messages = problems.map(({ message }) => `${message}\n`).join('')
    expect(messages).toBe(readFixture(`${name}.txt`))
    const companion = COMPANIONS[name as ProblemCode]
    const found = new Set(problems.map(({ code }) => code))
    expect([...found].sort()).toEqual(companion === undefined ? [name] : [companion, name].sort())
  })

  test.each(Object.entries(MADE))(
    '%s: the problem is found in generated text',
    (code, { text }) => {
      const { rules, errors } = parseRules(text())
      expect(rules).toBeUndefined()
      expect(errors.map((error) => error.code)).toEqual([code])
    },
  )

  test.each(codes.filter((code) => PROBLEMS[code].severity === 'warning'))(
    '%s: a warning leaves the rules usable, and is an error with strict',
    (code) => {
      const text = readFixture(`${code}.yaml`)
      const lenient = parseRules(text)
      expect(lenient.rules).toBeDefined()
      expect(lenient.errors).toEqual([])
      const strict = parseRules(text, { strict: true })
      expect(strict.rules).toBeUndefined()
      expect(strict.errors).toEqual(lenient.warnings)
      expect(strict.warnings).toEqual([])
    },
  )
})

describe('valid rules', () => {
  const folder = new URL('valid/', FOLDER)
  test.each(namesOf(folder, '.yaml'))('%s: no problem is found, even with strict', (name) => {
    const trusted = new Set(['tokens'])
    const text = readFixture(`valid/${name}.yaml`)
    const { rules, errors } = parseRules(text, { strict: true, trusted })
    expect(errors).toEqual([])
    expect(rules).toBeDefined()
  })
})

/** Compares the messages of every problem of a configuration with the stored ones. */
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { parseConfig } from './parse-config.js'

const FOLDER = new URL('../../../../conformance/config/', import.meta.url)
const TOKEN = 'token-0123456789'

/** Codes that never occur alone. */
const COMPANIONS: Readonly<Record<string, string>> = { 'more-problems': 'unknown-key' }

const readFixture = (name: string) => readFileSync(new URL(name, FOLDER), 'utf8')
const namesOf = (folder: URL, ending: string) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(ending))
    .map((name) => name.slice(0, -ending.length))

describe('invalid files', () => {
  test.each(namesOf(FOLDER, '.yaml'))('%s: the messages equal the stored ones', (name) => {
    const file = `${name}.yaml`
    const text = readFixture(file)
    const { config, errors } = parseConfig(text, { file, env: {}, readFile: () => TOKEN })
    expect(config).toBeUndefined()
    expect(errors.map(({ message }) => `${message}\n`).join('')).toBe(readFixture(`${name}.txt`))
    const codes = new Set<string>(errors.map(({ code }) => code))
    const companion = COMPANIONS[name]
    expect([...codes].sort()).toEqual(companion === undefined ? [name] : [name, companion].sort())
  })

  test('each has stored messages, and no stored messages lack a file', () => {
    expect(namesOf(FOLDER, '.txt').sort()).toEqual(namesOf(FOLDER, '.yaml').sort())
  })

  test('a file of more than 4 MiB is refused, even one of spaces', () => {
    const options = { file: 'f', env: {}, readFile: () => TOKEN }
    const most = 4 * 1024 * 1024
    expect(parseConfig(' '.repeat(most), options).errors).toEqual([])
    const { errors } = parseConfig(' '.repeat(most + 1), options)
    expect(errors.map(({ message }) => message)).toEqual([
      'f:1:1: document: too large: 4194305 characters. Accepted: up to 4194304 characters',
    ])
  })

  test('more than 10,000 keys are refused', () => {
    const text = JSON.stringify({ identity: { keys: Array.from({ length: 10_001 }, () => ({})) } })
    const { errors } = parseConfig(text, { file: 'f', env: {}, readFile: () => TOKEN })
    expect(errors.map(({ message }) => message)).toEqual([
      'f:1:21: identity.keys: too many: 10001 keys. Accepted: up to 10000 keys',
    ])
  })
})

describe('valid files', () => {
  const folder = new URL('valid/', FOLDER)
  test.each(namesOf(folder, '.yaml'))('%s: no problem', (name) => {
    const text = readFixture(`valid/${name}.yaml`)
    const readFile = (path: string) => `${TOKEN}-of-${path}`
    const parsed = parseConfig(text, { file: 'f', env: {}, readFile })
    expect(parsed.errors).toEqual([])
    expect(parsed.warnings).toEqual([])
    expect(parsed.config).toBeDefined()
  })
})

describe('environment variables', () => {
  const cases = JSON.parse(readFixture('environment.json')) as readonly {
    readonly env: Readonly<Record<string, string>>
    readonly errors: readonly string[]
    readonly warnings: readonly string[]
  }[]
  test.each(cases.map((each) => [JSON.stringify(each.env), each] as const))(
    '%s: the messages equal the stored ones',
    (_name, { env, errors, warnings }) => {
      const parsed = parseConfig(undefined, { file: undefined, env, readFile: () => TOKEN })
      expect(parsed.errors.map(({ message }) => message)).toEqual(errors)
      expect(parsed.warnings.map(({ message }) => message)).toEqual(warnings)
      expect(parsed.config === undefined).toBe(errors.length > 0)
    },
  )
})

/** A large file is read in a worker thread, with the same result as a small one. */
import { expect, test } from 'vitest'
import { parseDomainFile } from './parse-domain-file.js'
import { parseConfigFiles } from './parse-directory.js'

const limit = '{ unit: minute, requests_per_unit: 5 }'
const lines = Array.from(
  { length: 2000 },
  (_, index) =>
    `  - { key: user, value: u${index}, metadata: { __proto__: 1 }, rate_limit: ${limit} }\n`,
)
const large = `\ufeffdomain: d\ndescriptors:\n${lines.join('')}`

test('a large file is read like a small one', async () => {
  expect(large.length).toBeGreaterThan(64 * 1024)
  const { domains, errors } = await parseConfigFiles([{ file: 'f', text: large }], {})
  expect(errors).toEqual([])
  expect(domains).toEqual([parseDomainFile(large, { file: 'f' }).config])
})

test('the errors of a large file have the places and the texts of a small one', async () => {
  const text = `${large}  - { key: True, value: 1.5, shadow: true }\n  - { kee: x }\n`
  const { domains, errors } = await parseConfigFiles([{ file: 'f', text }], {})
  expect(domains).toBeUndefined()
  expect(errors).toHaveLength(4)
  expect(errors).toEqual(parseDomainFile(text, { file: 'f' }).errors)
})

test('a large text that is no YAML is an error with its place', async () => {
  const text = `${large}\t- x\n`
  const { errors } = await parseConfigFiles([{ file: 'f', text }], {})
  expect(errors.length).toBeGreaterThan(0)
  for (const { code, line } of errors) expect([code, line]).toEqual(['bad-yaml', 2003])
})

/** A large set is parsed without delaying decisions. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { requestDecision, type Operator, operatorOf } from './operator.test-helper.js'
import { stopAll } from './process.test-helper.js'
import { type RunningServer, start } from './serve.test-helper.js'

const RULES = 2000
/** Above this size, text is parsed in a worker thread. */
const LARGE = 64 * 1024

const ruleOf = (i: number, limit: string) =>
  `  - { id: r${i}, match: { path: /p${i} }, by: [ip], limits: [${limit}] }\n`
const setOf = (limit: string) =>
  `rules:\n${Array.from({ length: RULES }, (_, i) => ruleOf(i, limit)).join('')}`

let server: RunningServer
let operator: Operator

beforeAll(async () => {
  server = await start()
  operator = operatorOf(server)
})
afterAll(stopAll)

const limitAt = async (i: number) =>
  (await requestDecision(server.api, 'peek', { ip: '203.0.113.7', path: `/p${i}` })).limits[`r${i}`]

/** From a file, because the text is too long for a command line. */
function sendRules(path: string, text: string, method = 'PUT') {
  writeFileSync(join(server.folder, 'large.yaml'), text)
  return operator.curl(path, { method, body: '@large.yaml', type: 'application/yaml' })
}

test('a set of 2,000 rules is validated, put, listed and exported', async () => {
  const text = setOf('9/second')
  expect(text.length).toBeGreaterThan(LARGE)
  const checked = await sendRules('/validate?file=large.yaml', text, 'POST')
  expect(checked).toMatchObject({ status: 200, json: { valid: true, errors: [] } })
  const applied = await sendRules('/rules?why=large', text)
  expect(applied.status).toBe(200)
  expect([await limitAt(0), await limitAt(RULES - 1)]).toEqual([9, 9])

  expect(await operator.json('rules list')).toHaveProperty('rules.length', RULES)
  await operator.sluice('rules export -o export.yaml')
  expect(await operator.sluice('rules diff -f export.yaml')).toMatchObject({ code: 0 })
})

test('one invalid rule among 2,000 is reported by its line, and nothing changes', async () => {
  const before = await limitAt(1999)
  const text = setOf('7/second').replace('id: r1500,', 'id: r1500, mdoe: shadow,')
  const message = expect.stringMatching(/^large\.yaml:1502:18: rule "r1500": mdoe: /) as string
  const checked = await sendRules('/validate?file=large.yaml', text, 'POST')
  expect(checked.json).toMatchObject({ valid: false, errors: [{ message }] })
  const refused = await sendRules('/rules?file=large.yaml', text)
  expect([refused.status, refused.json]).toMatchObject([400, { errors: [{ message }] }])
  expect(await limitAt(1999)).toBe(before)
})

import { readdirSync, readFileSync } from 'node:fs'
import { chdir, cwd } from 'node:process'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  answer,
  cleanAfterTests,
  problem,
  sluice,
  startAdmin,
  tempFile,
  TOKEN,
} from '../cli.test-helper.js'

cleanAfterTests()

const RULES = 'rules:\n  - { id: a, by: [ip], limits: [5/second] }\n'
const none = { added: 0, changed: 0, removed: 0 }
const diff = {
  set: [],
  rules: [
    {
      id: 'a',
      change: 'changed',
      fields: [{ field: 'limits', before: '10/second', after: '5/second' }],
      counters: [
        { where: 'limits', limit: 'token-bucket-1s', counters: 'go on', what: 'max 10 to 5' },
      ],
      overrides: none,
    },
  ],
}
const DIFF_TEXT = `~ a  changed
    limits: 10/second -> 5/second
    counters go on: limits token-bucket-1s (max 10 to 5)
Rules: 1 changed.
`
const same = { set: [], rules: [] }
const page = { version: 6, routes: [], strictPaths: false, rules: [], next: null }
const applied = (version: number, what: object = diff) =>
  answer({ version, diff: what, warnings: [] })
const routes = {
  'GET /rules': answer(page),
  'PUT /rules': [applied(9), applied(10)],
}

describe('sluice rules apply', () => {
  test('shows the changes, asks, and applies what it showed', async () => {
    const admin = await startAdmin(routes)
    const file = tempFile('rules.yaml', RULES)
    const ran = await admin.run(['rules', 'apply', '-f', file, '--why', 'INC-7'], {
      answers: ['y'],
    })
    expect(ran).toEqual({
      code: 0,
      out: `${DIFF_TEXT}Applied as version 10.\n`,
      err: '',
      prompts: ['Apply? [y/N] '],
    })
    expect(admin.lines()).toEqual(['GET /rules', 'PUT /rules', 'PUT /rules'])
    const [, dry, real] = admin.requests
    expect(dry).toMatchObject({ query: { file, dryRun: 'true' }, ifMatch: '"6"', body: RULES })
    expect(real).toMatchObject({ ifMatch: '"6"', body: RULES, token: `Bearer ${TOKEN}` })
    expect(real?.query).toEqual({ file, why: 'INC-7' })
  })

  test.each(['', 'n', 'no', 'yesterday'])('changes nothing if the answer is %j', async (said) => {
    const admin = await startAdmin(routes)
    const file = tempFile('rules.yaml', RULES)
    const ran = await admin.run(['rules', 'apply', '-f', file], { answers: [said] })
    expect(ran).toMatchObject({ code: 1, err: 'Nothing was changed.\n' })
    expect(admin.lines()).toEqual(['GET /rules', 'PUT /rules'])
  })

  test('does not ask with --yes, terminal or not', async () => {
    const admin = await startAdmin(routes)
    const file = tempFile('rules.yaml', RULES)
    const ran = await admin.run(['rules', 'apply', '-f', file, '--yes'])
    expect(ran).toMatchObject({ code: 0, prompts: [] })
  })

  test('rejects a missing --yes without a terminal as misuse, before anything is sent', async () => {
    const admin = await startAdmin(routes)
    const file = tempFile('rules.yaml', RULES)
    const ran = await admin.run(['rules', 'apply', '-f', file])
    expect(ran).toMatchObject({
      code: 2,
      out: '',
      err: 'there is no terminal to ask on; accepted: --yes, or --dry-run to look only\n',
    })
    expect(admin.requests).toEqual([])
  })

  test('reads the rules from standard input, and then cannot ask', async () => {
    const admin = await startAdmin(routes)
    const words = ['rules', 'apply', '-f', '-']
    expect(await admin.run(words, { input: RULES, answers: ['y'] })).toMatchObject({ code: 2 })
    expect(await admin.run([...words, '--yes'], { input: RULES })).toMatchObject({ code: 0 })
    expect(admin.requests.at(-1)).toMatchObject({ query: { file: 'stdin' }, body: RULES })
  })

  test('only shows the changes with --dry-run', async () => {
    const admin = await startAdmin(routes)
    const file = tempFile('rules.yaml', RULES)
    const ran = await admin.run(['rules', 'apply', '-f', file, '--dry-run', '--shadow', '--strict'])
    expect(ran).toMatchObject({ code: 0, out: DIFF_TEXT })
    expect(admin.requests.at(-1)?.query).toEqual({
      file,
      dryRun: 'true',
      shadow: 'true',
      strict: 'true',
    })
    expect(admin.requests).toHaveLength(2)
  })

  test('asks nothing and sends nothing if nothing changes', async () => {
    const admin = await startAdmin({ ...routes, 'PUT /rules': applied(9, same) })
    const ran = await admin.run(['rules', 'apply', '-f', tempFile('rules.yaml', RULES)], {
      answers: [],
    })
    expect(ran).toMatchObject({ code: 0, out: 'Nothing changes.\n', prompts: [] })
    expect(admin.requests).toHaveLength(2)
  })

  test('reports clearly that the rules were changed in the meantime', async () => {
    const conflict = problem(409, 'version_conflict', { version: 8 })
    const admin = await startAdmin({ ...routes, 'PUT /rules': [applied(9), conflict] })
    const ran = await admin.run(['rules', 'apply', '-f', tempFile('rules.yaml', RULES), '-y'])
    expect(ran).toMatchObject({
      code: 1,
      err: 'The rules were changed by someone else in the meantime, now version 8; nothing was changed. Run the command again.\n',
    })
  })

  test('reports invalid rules line by line', async () => {
    const errors = [{ message: 'r.yaml:1:2: bad\u001b[2J' }, { message: 'r.yaml:3:4: worse' }]
    const admin = await startAdmin({
      ...routes,
      'PUT /rules': problem(400, 'rules_invalid', { errors }),
    })
    const ran = await admin.run(['rules', 'apply', '-f', tempFile('r.yaml', 'x'), '-y'])
    expect(ran).toMatchObject({ code: 1, err: 'r.yaml:1:2: bad\\u001b[2J\nr.yaml:3:4: worse\n' })
  })

  test('says how to confirm the removal of the last rule', async () => {
    const asks = problem(409, 'confirmation_needed', { detail: 'Confirm that it is meant' })
    const admin = await startAdmin({
      ...routes,
      'PUT /rules': ({ query }) => (query['confirm'] === 'no-rules' ? applied(9) : asks),
    })
    const words = ['rules', 'apply', '-f', tempFile('rules.yaml', 'rules: []'), '--yes']
    expect(await admin.run(words)).toMatchObject({
      code: 1,
      err: 'this leaves no rule at all, so that every call is allowed; accepted: --confirm-no-rules, if that is meant\n',
    })
    expect(await admin.run([...words, '--confirm-no-rules'])).toMatchObject({ code: 0 })
  })

  test('prints one JSON result with --json, and the user still sees what the question is about', async () => {
    const admin = await startAdmin(routes)
    const words = ['rules', 'apply', '-f', tempFile('rules.yaml', RULES), '--json']
    const ran = await admin.run(words, { answers: ['yes'] })
    expect(JSON.parse(ran.out)).toMatchObject({ version: 10, diff })
    expect(ran.err).toBe(DIFF_TEXT)
  })

  test('rejects a missing file as misuse', async () => {
    const admin = await startAdmin(routes)
    const ran = await admin.run(['rules', 'apply', '-f', '/nowhere/rules.yaml', '-y'])
    expect(ran).toMatchObject({ code: 2, err: expect.stringContaining('ENOENT') })
    expect(admin.requests).toEqual([])
  })
})

describe('sluice rules diff', () => {
  const validated = (what: object | null, errors: object[] = []) =>
    answer({ valid: what !== null, errors, warnings: [], diff: what })

  test('exits 1 if there is a difference, and 0 if there is none', async () => {
    const admin = await startAdmin({ 'POST /validate': [validated(diff), validated(same)] })
    const words = ['rules', 'diff', '-f', tempFile('rules.yaml', RULES)]
    expect(await admin.run(words)).toMatchObject({ code: 1, out: DIFF_TEXT, err: '' })
    expect(await admin.run(words)).toMatchObject({ code: 0, out: 'Nothing changes.\n' })
  })

  test('exits 1 for invalid rules, and reports them', async () => {
    const admin = await startAdmin({
      'POST /validate': validated(null, [{ message: 'r.yaml:1:1: bad' }]),
    })
    const ran = await admin.run(['rules', 'diff', '-f', tempFile('r.yaml', 'x')])
    expect(ran).toMatchObject({ code: 1, out: '', err: 'r.yaml:1:1: bad\n' })
  })
})

describe('sluice rules validate', () => {
  const folder = fileURLToPath(new URL('../../../../conformance/rules/', import.meta.url))
  const names = readdirSync(folder).filter((name) => name.endsWith('.yaml'))
  const before = cwd()
  beforeAll(() => chdir(folder))
  afterAll(() => chdir(before))

  test.each(names)('%s gets the same messages as from a server', async (name) => {
    const expected = readFileSync(name.replace('.yaml', '.txt'), 'utf8')
    const { code, err } = await sluice(['rules', 'validate', '-f', name])
    expect(err).toBe(expected)
    const { valid } = JSON.parse((await sluice(['rules', 'validate', '-f', name, '--json'])).out)
    expect(code).toBe(valid === true ? 0 : 1)
    expect((await sluice(['rules', 'validate', '-f', name, '--strict'])).code).toBe(1)
  })

  test('reports an error for a value that a rule store cannot keep', async () => {
    const input = '[{ id: a, by: [ip], match: { where: { plan: 1e3 } }, limits: [5/second] }]'
    const ran = await sluice(['rules', 'validate', '-f', '-'], { input })
    expect(ran).toMatchObject({ code: 1, out: '' })
    expect(ran.err).toContain('stdin:1:')
  })

  test('does not warn about a cost from a trusted attribute', async () => {
    const strict = ['rules', 'validate', '-f', 'free-cost.yaml', '--strict']
    expect((await sluice([...strict, '--trust', 'tokens'])).err).not.toContain('"tokens"')
    expect((await sluice([...strict, '--trust', 'tokens, x-weight'])).code).toBe(0)
  })

  test('names the rules that count calls in flight, which not every entry point does', async () => {
    const places = '{ algorithm: concurrency, max: 5 }'
    const input = `[{ id: a, by: [], limits: [${places}] }, { id: b, by: [], limits: [5/second] },
      { id: c, by: [], limits: [5/second], tiers: { plan: { pro: [${places}] } } }]`
    const ran = await sluice(['rules', 'validate', '-f', '-', '--strict'], { input })
    expect(ran).toMatchObject({ code: 0, err: '' })
    expect(ran.out).toBe(
      '3 rules, no errors.\nCalls in flight are counted only where their end is seen ' +
        '(gateway, middlewares and reservations, not decision API and forward-auth): a, c.\n',
    )
    const { notes } = JSON.parse(
      (await sluice(['rules', 'validate', '-f', '-', '--json'], { input })).out,
    )
    expect(notes).toHaveLength(1)
  })

  test('says how far the tolerance of merged limits holds, where there are several regions', async () => {
    const window = '{ algorithm: sliding-window-counter, max: 100, window: 1m }'
    const input = `[{ id: a, by: [], limits: [${window}] }, { id: b, by: [], limits: [5/second] },
      { id: c, by: [], limits: [${window}], regions: split }, { id: d, by: [], limits: [${window}], mode: off }]`
    const command = ['rules', 'validate', '-f', '-']
    expect((await sluice(command, { input })).out).toBe('4 rules, no errors.\n')
    const ran = await sluice([...command, '--regions', 'eu-west, us-east'], { input })
    expect(ran.out).toBe(
      '4 rules, no errors.\nRegions stay within 10% of a, sliding-window-counter-1m ' +
        'while up to 60 times it is offered.\n',
    )
  })

  test('warns of limits that several regions cannot merge', async () => {
    const input = '[{ id: a, by: [], limits: [{ algorithm: leaky-bucket, max: 5, window: 1s }] }]'
    const strict = ['rules', 'validate', '-f', '-', '--strict']
    expect((await sluice(strict, { input })).code).toBe(0)
    const ran = await sluice([...strict, '--regions', 'eu-west,us-east'], { input })
    expect(ran.code).toBe(1)
    expect(ran.err).toContain('each region has it all: 2 x 5 in all')
  })

  test('prints the number of valid rules', async () => {
    const ran = await sluice(['rules', 'validate', '-f', '-'], { input: RULES })
    expect(ran).toMatchObject({ code: 0, out: '1 rule, no errors.\n' })
  })
})

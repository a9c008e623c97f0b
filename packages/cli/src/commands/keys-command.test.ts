import { describe, expect, test } from 'vitest'
import { answer, cleanAfterTests, problem, startAdmin, tempFile } from '../cli.test-helper.js'

cleanAfterTests()

const key = {
  id: 'k1',
  user: 'acme',
  plan: 'pro',
  state: 'active',
  last4: 'x9Qz',
  createdAt: '2026-01-02T03:04:05.678Z',
  version: 4,
}
const SHA = 'ab'.repeat(32)

describe('sluice keys add', () => {
  test('creates a key and shows it once', async () => {
    const admin = await startAdmin({
      'POST /keys': { status: 201, body: { ...key, key: 'sk_made' } },
    })
    const ran = await admin.run(['keys', 'add', '--user', 'acme', '--plan', 'pro', '--name', 'ci'])
    expect(ran).toMatchObject({ code: 0, err: '' })
    expect(ran.out).toBe(`id     k1
user   acme
plan   pro
state  active
name   -
key    sk_made
Save the key now: it is not shown again.
`)
    expect(JSON.parse(admin.requests[0]?.body ?? '')).toEqual({
      user: 'acme',
      plan: 'pro',
      name: 'ci',
    })
  })

  test('reads a key from standard input and never shows it', async () => {
    const admin = await startAdmin({ 'POST /keys': answer({ ...key, key: 'sk_given' }) })
    for (const json of [[], ['--json']]) {
      const ran = await admin.run(['keys', 'add', '--key-stdin', ...json], { input: 'sk_given\n' })
      expect(ran.code).toBe(0)
      expect(ran.out + ran.err).not.toContain('sk_given')
    }
    expect(admin.requests[0]?.body).toBe('{"key":"sk_given"}')
  })

  test.each([
    [['--key-stdin'], ''],
    [['--key-stdin'], 'one\ntwo\n'],
    [['--key-stdin', '--sha256', SHA], 'sk'],
  ])('rejects %j with input %j as misuse', async (flags, input) => {
    const admin = await startAdmin({})
    expect(await admin.run(['keys', 'add', ...flags], { input })).toMatchObject({ code: 2 })
    expect(admin.requests).toEqual([])
  })
})

test('sluice keys list requests as many as asked for, and says that there are more', async () => {
  const admin = await startAdmin({ 'GET /keys': answer({ keys: [key, key], next: 'k2' }) })
  const ran = await admin.run(['keys', 'list', '--user', 'acme', '--limit', '2'])
  expect(ran.out.split('\n')[1]?.split(/ {2,}/)).toEqual([
    'k1',
    'acme',
    'pro',
    'active',
    '-',
    'x9Qz',
    '2026-01-02T03:04:05Z',
  ])
  expect(ran.err).toBe('More results: --after k2\n')
  expect(admin.requests.map(({ query }) => query)).toEqual([{ user: 'acme', limit: '2' }])
})

test.each([
  [['disable', 'k1'], { state: 'disabled' }],
  [['enable', 'k1'], { state: 'active' }],
  [['set', 'k1', '--plan', 'free', '--name', ''], { plan: 'free', name: null }],
])('sluice keys %j sends one patch', async (words, patch) => {
  const admin = await startAdmin({ 'PATCH /keys/k1': answer(key) })
  expect(await admin.run(['keys', ...words, '--why', 'leaked'])).toMatchObject({ code: 0 })
  expect(JSON.parse(admin.requests[0]?.body ?? '')).toEqual(patch)
  expect(admin.requests[0]?.query).toEqual({ why: 'leaked' })
})

test('sluice keys remove deletes one key, and set without a change is misuse', async () => {
  const admin = await startAdmin({ 'DELETE /keys/k1': answer({ version: 5 }) })
  expect((await admin.run(['keys', 'remove', 'k1'])).out).toBe('k1 is unknown now. Version 5.\n')
  expect(await admin.run(['keys', 'set', 'k1'])).toMatchObject({ code: 2 })
})

describe('sluice keys import', () => {
  const listOf = (count: number) =>
    [
      'sha256,user',
      ...Array.from({ length: count }, (_, i) => `${String(i).padStart(64, '0')},u${i}`),
    ].join('\n')

  test('sends batches of up to a thousand', async () => {
    const admin = await startAdmin({ 'POST /keys': answer({ keys: [] }) })
    const file = tempFile('keys.csv', listOf(2500))
    const ran = await admin.run(['keys', 'import', '-f', file], { answers: [] })
    expect(ran).toMatchObject({ code: 0, out: 'Imported 2500 keys.\n' })
    expect(ran.err).toContain('\r1000 of 2500 keys\r2000 of 2500 keys\r2500 of 2500 keys\n')
    const batches = admin.requests.map(({ body }) => JSON.parse(body) as readonly object[])
    expect(batches.map(({ length }) => length)).toEqual([1000, 1000, 500])
    expect(batches[2]?.[499]).toEqual({ sha256: '2499'.padStart(64, '0'), user: 'u2499' })
  })

  test('says where to resume after a failure, and resumes there', async () => {
    const admin = await startAdmin({
      'POST /keys': [
        answer({ keys: [] }),
        problem(409, 'key_exists', { detail: 'keys[3]: the key is registered already' }),
        answer({ keys: [] }),
      ],
    })
    const file = tempFile('keys.csv', listOf(1500))
    const ran = await admin.run(['keys', 'import', '-f', file])
    expect(ran).toMatchObject({
      code: 1,
      err: `1000 of 1500 keys were imported. Go on with --start 1002\n${file}:1005: the key is registered already (key_exists)\n`,
    })
    expect(await admin.run(['keys', 'import', '-f', file, '--start', '1002'])).toMatchObject({
      code: 0,
    })
    expect((JSON.parse(admin.requests[2]?.body ?? '') as readonly object[])[0]).toMatchObject({
      user: 'u1000',
    })
  })

  test('says how to resume if it is unknown whether the keys were stored', async () => {
    const admin = await startAdmin({ 'POST /keys': { body: {}, drop: true } })
    const ran = await admin.run(['keys', 'import', '-f', tempFile('keys.csv', listOf(3))])
    expect(ran.code).toBe(2)
    expect(ran.err).toContain(
      '0 of 3 keys were imported. Go on with --start 2; if it says that the first key is registered already, lines up to 4 are in, so with --start 5\n',
    )
    expect(ran.err).toContain('Whether the change was made is not known')
  })

  test('rejects a start line beyond the end of the file', async () => {
    const admin = await startAdmin({})
    const file = tempFile('keys.csv', listOf(3))
    const ran = await admin.run(['keys', 'import', '-f', file, '--start', '6'])
    expect(ran).toMatchObject({ code: 2, err: expect.stringContaining('accepted: up to 5') })
    expect(admin.requests).toEqual([])
  })

  test('sends nothing of a file with an invalid line', async () => {
    const admin = await startAdmin({})
    const file = tempFile('keys.jsonl', `{"sha256":"${SHA}"}\n{"sha256":"x"}\n`)
    const ran = await admin.run(['keys', 'import', '-f', file])
    expect(ran).toMatchObject({
      code: 1,
      err: `${file}:2: sha256: accepted: 64 hex digits\nNothing was sent.\n`,
    })
    expect(admin.requests).toEqual([])
  })
})

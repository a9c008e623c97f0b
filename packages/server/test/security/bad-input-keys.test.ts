/** Bad input, part two: keys and identity (B16 to B27). */
import { expect, test } from 'vitest'
import { parseConfig } from '../../src/config/parse-config.js'
import { readMetrics, valueOf } from '../../src/observability/metrics/read-metrics.test-helper.js'
import { startTestServer } from '../../src/serve.test-helper.js'
import {
  allowed,
  requestOnce,
  check,
  expectAlive,
  get,
  post,
  serverOfFile,
} from './bad-input.test-helper.js'
import { exchange } from './raw.test-helper.js'

const once = (id: string, by: readonly string[]) => {
  return { id, by, limits: [{ max: 1, window: '366d' }] }
}
const tenOf = (id: string) => ({ id, by: ['twin'], limits: [{ max: 10, window: '366d' }] })
const files = serverOfFile({
  config: { identity: { headers: { session: 'x-session' } } },
  rules: [
    once('user', ['user']),
    once('pair', ['left', 'right']),
    once('session', ['session']),
    tenOf('twin-a'),
    tenOf('twin-b'),
    // The name of a property that every object has.
    once('constructor', ['constructor']),
  ],
})

const user = (value: unknown) => ({ user: value })

/** Each is a caller of its own: its first call passes, its second does not. */
async function expectApart(calls: readonly Readonly<Record<string, unknown>>[]): Promise<void> {
  const { server } = files
  expect(await allowed(server, calls)).toEqual(calls.map(() => true))
  expect(await allowed(server, calls)).toEqual(calls.map(() => false))
  await expectAlive(server)
}

test.each([{}, user(''), user(null), { User: 'a' }])(
  'B16 a call without a subject, %j, is counted for no caller and under no invented name',
  async (attributes) => {
    const { server } = files
    for (let i = 0; i < 3; i++) {
      const { status, json, headers } = await check(server, { attributes })
      expect([status, json['allowed'], json['reason']]).toEqual([200, true, 'unmatched'])
      expect(headers.has('ratelimit')).toBe(false)
    }
    for (const name of ['undefined', 'null']) {
      const { json } = await check(server, { attributes: user(name), cost: 0 })
      expect(json['remaining']).toBe(1)
    }
  },
)

test('B17 values that hold a separator are distinct callers', () =>
  expectApart(
    [
      ['a_b', 'c'],
      ['a', 'b_c'],
      ['a:b', 'c'],
      ['a', 'b:c'],
      ['a\0b', 'c'],
      ['a', 'b\0c'],
      ['a|b', 'c'],
      ['a,b', 'c'],
      ['a', 'b,c'],
      ['ab', 'c'],
      ['a', 'bc'],
      ['1:a', '1:b'],
      ['c', 'a_b'],
    ].map(([left, right]) => ({ left, right })),
  ))

test('B18 two rules for one subject have a counter each', async () => {
  const calls = Array.from({ length: 11 }, () => ({ twin: 'a' }))
  const answers = await allowed(files.server, calls)
  expect(answers.filter((isAllowed) => isAllowed)).toHaveLength(10)
})

// The hash decides the slot of a key: packages/core/src/key.test.ts.
test('B19 braces in a subject do not change the subject', () =>
  expectApart(['{', '}', '{}', '{a}b', '{a}c', 'a{b}', '}{'].map(user)))

test('B20 control characters in a subject are part of it', () =>
  expectApart(['\n', '\r', '\r\n', '\0', '*', ' ', '  ', '\xff', 'a\n', 'a'].map(user)))

test('B20 control characters are escaped in the log', async () => {
  const server = await startTestServer({
    config: { log: { callers: 'clear' } },
    rules: [{ id: 'user', by: ['user'], limits: ['0/second'] }],
  })
  try {
    const attributes = { user: 'a\r\n{"msg":"forged"}\u2028\u202e', path: '/a\nb', method: 'G\0' }
    expect((await check(server, { attributes })).json['allowed']).toBe(false)
    const [line] = server.lines.filter(({ msg }) => msg === 'refused')
    expect(line).toMatchObject({
      caller: { user: 'a\\u000d\\u000a{"msg":"forged"}\\u2028\\u202e' },
      path: '/a\\u000ab',
      method: 'G\\u0000',
    })
  } finally {
    await server.close()
  }
})

const KB = 1024

test('B21 a subject of up to 8,192 characters is accepted, and a longer one refused with 400', async () => {
  const { server } = files
  await expectApart([user('u'.repeat(8192)), user(`${'u'.repeat(8191)}v`)])
  for (const length of [8193, 60 * KB]) {
    const { status, json } = await check(server, { attributes: user('u'.repeat(length)) })
    expect([status, json['error']]).toEqual([400, 'CALL_ATTRIBUTE_TOO_LONG'])
  }
  await expectAlive(server)
})

// DESIGN: a body of the decision API has at most 64 KB, so its status is 413 and not 431.
test.each([64 * KB, 1024 * KB, 16 * 1024 * KB])(
  'B21 a subject of %i bytes is refused with 413 by the decision API, which closes',
  async (length) => {
    const { server } = files
    const body = JSON.stringify({ attributes: user('u'.repeat(length)) })
    const { answers, isClosed } = await exchange(server.apiPort, post('/v1/check', body))
    expect(answers.map(({ status }) => status)).toEqual([413])
    expect(isClosed).toBe(true)
    await expectAlive(server)
  },
)

test('B21 a subject in a header is refused with 400 above 8,192 bytes', async () => {
  const { server } = files
  const before = server.calls.length
  const header = (length: number) => get('/', `X-Session: ${'s'.repeat(length)}\r\n`)
  expect((await requestOnce(server.gatewayPort, header(8192))).status).toBe(200)
  expect((await requestOnce(server.gatewayPort, header(8193))).status).toBe(400)
  expect(server.calls).toHaveLength(before + 1)
})

test.each([64 * KB, 1024 * KB, 16 * 1024 * KB])(
  'B21 a subject of %i bytes in a header is refused with 431, and the connection closed',
  async (length) => {
    const { server } = files
    const before = server.calls.length
    const bytes = get('/', `X-Session: ${'s'.repeat(length)}\r\n`)
    const { answers, isClosed } = await exchange(server.gatewayPort, bytes)
    expect(answers.map(({ status }) => status)).toEqual([431])
    expect(isClosed).toBe(true)
    expect(server.calls).toHaveLength(before)
    await expectAlive(server)
  },
)

test('B22 a token or an e-mail address as a subject appears in no log and no metric', async () => {
  const { server } = files
  const token = 'secret-token-of-somebody'
  const mail = 'somebody@mail.example'
  for (let i = 0; i < 2; i++) {
    await requestOnce(server.gatewayPort, get('/', `X-Session: ${token}\r\n`))
    await check(server, { attributes: user(mail) })
  }
  const refused = server.lines.filter(({ msg }) => msg === 'refused')
  expect(refused.map(({ rule }) => rule)).toEqual(expect.arrayContaining(['session', 'user']))
  const metrics = (await requestOnce(server.adminPort, get('/metrics'))).body
  for (const text of [JSON.stringify(server.lines), metrics]) {
    expect(text).not.toContain(token)
    expect(text).not.toContain(mail)
  }
})

// DESIGN has no normaliser: attributes are compared unchanged, which rules can rely on.
test('B23 texts that look alike stay distinct', () =>
  expectApart(['é', 'e\u0301', '１', '1', 'a\u200db', 'ab', 'A@x', 'a@x', 'a@x '].map(user)))

test('B24 half a surrogate is an ordinary subject', () =>
  expectApart(['\ud800', 'a\ud800b', '\udc00', '\ufffd'].map(user)))

test('B24 bytes that are not UTF-8 are refused with 400 in JSON, and one caller in a header', async () => {
  const { server } = files
  const body = Buffer.from('{"attributes":{"user":"\xff\xc0\xaf"}}', 'latin1')
  const { status, json } = await check(server, body)
  expect([status, json['detail']]).toEqual([
    400,
    'body: found bytes that are not UTF-8; accepted: JSON in UTF-8',
  ])
  const statuses = []
  for (const value of ['\xff\xc0\xaf', '\xff\xc0\xaf', '\xff\xc0\xae']) {
    statuses.push(
      (await requestOnce(server.gatewayPort, get('/', `X-Session: ${value}\r\n`))).status,
    )
  }
  expect(statuses).toEqual([200, 429, 200])
})

const PROTOTYPE = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf', 'prototype']

test('B25 names of object properties are ordinary names', async () => {
  const { server } = files
  await expectApart(PROTOTYPE.map(user))
  for (const name of PROTOTYPE) {
    const { status, json } = await check(server, `{"attributes":{"${name}":"x","user":null}}`)
    expect([name, status]).toEqual([name, 200])
    // One of them is the attribute and the id of a rule; the others are in no rule.
    expect(json['rule']).toBe(name === 'constructor' ? 'constructor' : null)
    const refused = await check(server, `{"attributes":{},"${name}":{"polluted":true}}`)
    expect([name, refused.status]).toEqual([name, 400])
    const call = await requestOnce(server.gatewayPort, get('/', `${name}: x\r\n`))
    expect([name, call.status]).toEqual([name, 200])
  }
  expect(({} as { polluted?: true }).polluted).toBeUndefined()
  const { body } = await requestOnce(server.adminPort, get('/metrics'))
  const labels = { rule: 'constructor', outcome: 'allowed', source: 'store' }
  expect(valueOf(readMetrics(body), 'sluice_decisions_total', labels)).toBe(1)
  await expectAlive(server)
})

test('B26 a user is never read from what a caller can set', async () => {
  const { server } = files
  const body = '{"user":"victim"}'
  const headers = `X-User: victim\r\nUser: victim\r\nContent-Length: ${body.length}\r\n`
  for (let i = 0; i < 3; i++) {
    const bytes = get('/login?user=victim', headers, 'POST') + body
    expect((await requestOnce(server.gatewayPort, bytes)).status).toBe(200)
  }
  expect(await allowed(server, [user('victim')])).toEqual([true])
  const { errors } = parseConfig('identity: { headers: { user: x-user } }', {
    file: 'sluice.yaml',
    env: {},
    readFile: () => '',
  })
  expect(errors.map(({ message }) => message).join()).toContain('"user" has a field of its own')
})

test('B27 thousands of names that look like numbers are refused with 400 or 413', async () => {
  const { server } = files
  const names = (count: number) =>
    `{"attributes":{${Array.from({ length: count }, (_, i) => `"${i}":1`).join()}}}`
  const some = await check(server, names(5000))
  expect([some.status, some.json['detail']]).toEqual([
    400,
    'attributes: found 5000 names; accepted: up to 64',
  ])
  expect((await check(server, names(64))).status).toBe(200)
  const many = await exchange(server.apiPort, post('/v1/check', names(100_000)))
  expect(many.answers.map(({ status }) => status)).toEqual([413])
  const list = await check(server, `[${'{"attributes":{}},'.repeat(1000)}{"attributes":{}}]`)
  expect([list.status, list.json['detail']]).toEqual([
    400,
    'body: found a list of 1001 items; accepted: up to 1000',
  ])
  await expectAlive(server)
})

import { readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { VARIABLES } from './environment.js'
import { parseConfig } from './parse-config.js'
import { propertyRuns } from '../../../../tools/property-runs.js'

const FOLDER = new URL('../../../../conformance/config/', import.meta.url)
const TEXTS = ['', 'valid/'].flatMap((folder) =>
  readdirSync(new URL(folder, FOLDER))
    .filter((name) => name.endsWith('.yaml'))
    .map((name) => readFileSync(new URL(folder + name, FOLDER), 'utf8'))
    .filter((text) => text.length < 6000),
)

const RUNS = propertyRuns(500)
/** Long enough that the rest of one after a cut could still be a secret. */
const SECRETS = ['zQ7'.repeat(14), 'wX9'.repeat(14)]
/** A piece of a secret that occurs nowhere else here. */
const PIECES = ['zQ7zQ7', 'wX9wX9']
const SECRET_TEXT = `
identity:
  apiKey: { header: x-api-key }
  keys:
    - { key: ${SECRETS[0]}, user: acme, plan: pro, state: active }
    - key: "${SECRETS[1]}"
      user: other
gateway:
  upstreams: [{ url: "http://me:${SECRETS[0]}@10.0.0.1" }]
redis: { url: "redis://me:${SECRETS[1]}@10.0.0.1", prefix: p }
database: { url: "postgres://me:${SECRETS[0]}@10.0.0.1/rules", tls: { ca: ca.pem } }
`

type Env = Readonly<Record<string, string>>

/** Checks that every problem is complete and on one line, whatever was parsed. */
function checkProblems(text: string | undefined, env: Env = {}): void {
  // The two files have names of different lengths, and so two tokens.
  const readFile = (path: string) => `token-0123456789-${path.length}`
  const options = { file: 'x.yaml', env, readFile }
  const { config, errors, warnings } = parseConfig(text, options)
  expect(config === undefined).toBe(errors.length > 0)
  for (const { field, found, accepted, message, line } of [...errors, ...warnings]) {
    expect(field).not.toBe('')
    expect(found).not.toBe('')
    expect(accepted).not.toBe('')
    expect(found.length).toBeLessThanOrEqual(64)
    expect(message).toMatch(/^(x\.yaml|SLUICE_)[^\p{Cc}\u2028\u2029]+$/u)
    expect(message.length).toBeLessThan(2000)
    if (line !== undefined) expect(line).toBeGreaterThan(0)
  }
}

const piece = fc.constantFrom(
  ...'gateway: api: admin: identity: keys: jwt: listen: tls: - [ ] { } , & * ! | > ? : # " \' % @'.split(
    ' ',
  ),
  ...' |  |    |\n|\n  |\n  - |\t|a|&a |*a|!!x |127.0.0.1:80|1s|null|true|-1|1e3|.inf|/v1|"|http://'.split(
    '|',
  ),
)

const edit = (texts: readonly string[]) =>
  fc
    .record({
      text: fc.constantFrom(...texts),
      at: fc.double({ min: 0, max: 1, noNaN: true }),
      cut: fc.nat(20),
      put: piece,
    })
    .map(({ text, at, cut, put }) => {
      const start = Math.floor(at * text.length)
      return text.slice(0, start) + put + text.slice(start + cut)
    })

const name = fc.constantFrom(
  ...'rules dataDir workers trustedProxies forwardedHeader maxCounters gateway api admin'.split(
    ' ',
  ),
  ...'identity refusals log shutdown listen tls cert key upstreams prefix url host headers'.split(
    ' ',
  ),
  ...'connections requireUser timeouts request tokenFile refusedStatus ipv6Prefix apiKey'.split(
    ' ',
  ),
  ...'header unknown keys sha256 user plan state jwt kid algorithm file jwks algorithms'.split(' '),
  ...'redis database deadline layout client denyCache clockTolerance fleetSize'.split(' '),
  ...'allowEviction ca servername'.split(' '),
  ...'issuer audience proxyHeaders open level callers delay within postureStatus jitter'.split(' '),
)
const value = fc.oneof(
  fc.constantFrom('127.0.0.1:80', '0.0.0.0:80', 'http://a', '/v1', '1s', 'RS256', 'x-a', '1.1.1.1'),
  fc.constantFrom(null, true, 0, 1, 64, 429, 0.5, -1, 1e21),
  fc.string(),
)
const { document } = fc.letrec<{ node: unknown; document: unknown }>((tie) => ({
  node: fc.oneof(
    { maxDepth: 5 },
    value,
    fc.array(tie('node'), { maxLength: 4 }),
    fc.dictionary(fc.oneof(name, fc.string({ maxLength: 5 })), tie('node'), { maxKeys: 6 }),
  ),
  document: fc.dictionary(name, tie('node'), { maxKeys: 8 }),
}))

describe('parseConfig never throws, and every problem is complete,', () => {
  test('for any text', () => {
    const unit = fc.nat(0xffff).map((code) => String.fromCharCode(code))
    const text = fc.string({ unit, maxLength: 100 })
    fc.assert(fc.property(text, (any) => checkProblems(any)))
  })

  test('for valid and invalid files with a piece inserted or cut out', () => {
    const property = fc.property(edit(TEXTS), (text) => checkProblems(text))
    fc.assert(property, { numRuns: RUNS })
  })

  test('for JSON with the words of the file', () => {
    const property = fc.property(document, (any) => checkProblems(JSON.stringify(any)))
    fc.assert(property, { numRuns: RUNS })
  })

  test('for any variables', () => {
    const text = fc.oneof(fc.string(), fc.constantFrom('[::1]:80', '127.0.0.1:80', '1', '1.1.1.1'))
    const env = fc.dictionary(fc.constantFrom(...VARIABLES, 'SLUICE_X\n', 'SLUICE_RULE'), text)
    const property = fc.property(env, (any) => checkProblems(undefined, any))
    fc.assert(property, { numRuns: RUNS })
  })
})

describe('no message contains a piece of a secret,', () => {
  function checkSecrets(text: string | undefined, env: Env = {}): void {
    const readFile = () => SECRETS[0]?.repeat(100) ?? ''
    const { errors, warnings } = parseConfig(text, { file: 'x.yaml', env, readFile })
    const said = JSON.stringify([errors, warnings])
    for (const secret of PIECES) expect(said).not.toContain(secret)
  }

  test('wherever the file was cut', () => {
    const property = fc.property(edit([SECRET_TEXT]), (text) => checkSecrets(text))
    fc.assert(property, { numRuns: 2 * RUNS })
  })

  test.each([
    `identity: { keys: [${SECRETS[0]}] }`,
    `identity: { keys: ${SECRETS[0]} }`,
    `identity: { keys: { ${SECRETS[0]}: acme } }`,
    `identity: { keys: [{ ${SECRETS[0]}: acme }] }`,
    `identity: { keys: [{ ${SECRETS[0]}: acme, ${SECRETS[0]}: acme }] }`,
    `identity: { keys: [{ key: a,${PIECES[0]} }] }`,
    `identity: { keys: [{ key:${PIECES[0]} }] }`,
    `identity: { keys: [{ key: [${SECRETS[0]}] }] }`,
    `identity: { keys: [{ key: "${SECRETS[0]} " }] }`,
    `identity: { keys: [{ sha256: ${SECRETS[0]} }] }`,
    `identity: { keys: [{ key: ${SECRETS[0]}, state: ${SECRETS[0]} }] }`,
    `identity: { keys: [{ key: ${SECRETS[0]} }, { key: ${SECRETS[0]} }] }`,
    `identity: { keys: [{ key: !${SECRETS[0]} }] }`,
    `identity: { keys: [{ key: *${SECRETS[0]} }] }`,
    `identity: { keys: [{ key: "\\${SECRETS[0]}" }] }`,
    `identity: { keys: [{ key: @${SECRETS[0]} }] }`,
    `identity:\n  keys:\n    - key: |${SECRETS[0]}\n`,
    `identity:\n  keys:\n    - key: %${SECRETS[0]}\n   user: x\n`,
    `identity: { apiKey: ${SECRETS[0]} }`,
    `identity: { jwt: { keys: [${SECRETS[0]}] } }`,
    `identity: { jwt: { keys: ${SECRETS[0]} } }`,
    `identity: { apiKey: { unknown: ${SECRETS[0]} } }`,
    `identity: { apiKey: { header: _${SECRETS[0]} } }`,
    `identity: { jwt: { keys: [{ algorithm: ${SECRETS[0]}, file: a }] } }`,
    `identity: { jwt: { jwks: { url: "https://a/b", algorithms: [${SECRETS[0]}] } } }`,
    `log: { level: ${SECRETS[0]} }`,
    `log: { callers: ${SECRETS[0]} }`,
    `forwardedHeader: ${SECRETS[0]}`,
    `gateway: { upstreams: [{ url: "http://a", host: ${SECRETS[0]} }] }`,
    `refusals: { postureStatus: ${SECRETS[0]} }`,
    `api: { refusedStatus: ${SECRETS[0]} }`,
    `api: { token: ${SECRETS[0]}, tokenFile: t }`,
    `api: ${SECRETS[0]}`,
    `${SECRETS[0]}`,
    `${SECRETS[0]}: 1`,
    `gateway: { upstreams: [{ url: "http://me:${SECRETS[0]}@a/b" }] }`,
    `gateway: { upstreams: [{ url: "http//me:${SECRETS[0]}@a" }] }`,
    `gateway: { upstreams: [{ url: "http://a?${SECRETS[0]}" }] }`,
    `gateway: { upstreams: [{ url: "http://me:${SECRETS[0]}:10.0.0.1" }] }`,
    `gateway: { upstreams: ["http://me:${SECRETS[0]}@a"] }`,
    `identity: { jwt: { jwks: { url: "http://me:${SECRETS[0]}@a" } } }`,
    `identity: { jwt: { jwks: "http://me:${SECRETS[0]}@a" } }`,
  ])('%j', (text) => {
    checkSecrets(text)
  })

  test.each([
    ['SLUICE_REDIS_URL', `redis://:${SECRETS[0]}@a`],
    ['SLUICE_DATABASE_URL', `postgres://me:${SECRETS[0]}@a/b`],
    ['SLUICE_KEY_SECRET', `${SECRETS[0]}`.repeat(100)],
    ['SLUICE_API_TOKEN', `${SECRETS[0]} ${SECRETS[1]}`],
    ['SLUICE_ADMIN_TOKEN', `${SECRETS[0]}\n`],
    ['SLUICE_UPSTREAM', `http://me:${SECRETS[0]}@a`],
    ['SLUICE_UPSTREM', `http://me:${SECRETS[0]}@a`],
    ['SLUICE_TOKEN', `${SECRETS[0]}`],
  ])('%s', (variable, text) => {
    checkSecrets(undefined, { [variable]: text })
  })
})

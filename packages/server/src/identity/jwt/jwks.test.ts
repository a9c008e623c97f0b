import { setImmediate } from 'node:timers/promises'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { JwtAlgorithm } from '../../config/config.js'
import { createTestIdentifier, requestFrom } from '../identify.test-helper.js'
import {
  createSigner,
  jwtConfig,
  type JwksServer,
  NOW_S,
  patiently,
  serveJwks,
  type Signer,
  sign,
  testClock,
  verifyAll,
} from './token-verifier.test-helper.js'
import { createTokenVerifier } from './token-verifier.js'

const IP = '198.51.100.7'
const HOUR_S = 3600

let k1: Signer
let k2: Signer
let rsa: Signer
const open: AsyncDisposable[] = []

beforeAll(async () => {
  k1 = await createSigner('k1')
  k2 = await createSigner('k2')
  rsa = await createSigner('r1', 'RS256')
})

afterEach(async () => {
  for (const part of open.splice(0)) await part[Symbol.asyncDispose]()
})

interface SetupOptions {
  readonly keys?: readonly unknown[]
  readonly algorithms?: readonly JwtAlgorithm[]
  readonly timeoutMs?: number
}

async function setup({ keys = [k1.jwk], algorithms = ['ES256'], timeoutMs }: SetupOptions = {}) {
  const clock = testClock()
  const server = await serveJwks(...keys)
  const warnings: string[] = []
  const tokens = await createTokenVerifier({
    config: jwtConfig({ jwks: { url: server.url, algorithms } }),
    clock,
    ipv6Prefix: 64,
    warn: (message) => warnings.push(message),
    fetchTimeoutMs: timeoutMs,
  })
  // The verifier is closed first: a server waits for its connections.
  open.push({ [Symbol.asyncDispose]: () => tokens.close() }, server)
  return { clock, server, tokens: patiently(tokens), warnings }
}

/** A token that is not cached, because it is unique. */
let serial = 0
function fresh(signer: Signer, header: Record<string, unknown> = {}): Promise<string> {
  return sign(signer, { jti: String(serial++), exp: NOW_S + 24 * HOUR_S }, header)
}

async function fetched(server: JwksServer, count: number): Promise<void> {
  while (server.fetches() < count) await setImmediate()
}

describe('published keys', () => {
  test('are fetched when a token first needs them, once for all waiters', async () => {
    const { server, tokens } = await setup()
    expect(server.fetches()).toBe(0)
    expect(tokens.stats().published).toEqual({ fetches: 0, failures: 0, keys: 0, ageMs: undefined })
    const signed = await Promise.all(Array.from({ length: 50 }, () => fresh(k1)))
    const verdicts = await verifyAll(tokens, signed, () => IP)
    for (const verdict of verdicts) expect(verdict).toMatchObject({ user: 'u1' })
    expect(server.fetches()).toBe(1)
    expect(tokens.stats().published).toEqual({ fetches: 1, failures: 0, keys: 1, ageMs: 0 })
  })

  test('are requested at most every ten seconds, whatever 10,000 tokens name', async () => {
    const { clock, server, tokens } = await setup()
    const token = await fresh(k1)
    const header = (kid: string) =>
      Buffer.from(JSON.stringify({ alg: 'ES256', kid })).toString('base64url')
    await tokens.verify(token, IP)
    for (let i = 0; i < 10_000; i++) {
      const invented = token.replace(/^[^.]+/, header(`k${Math.imul(i, 2_654_435_761) >>> 0}`))
      expect(await tokens.verify(invented, IP)).toBe('invalid_token')
      clock.advance(10)
    }
    // A hundred seconds have passed.
    expect(server.fetches()).toBeLessThanOrEqual(11)
    expect(tokens.stats().verified).toBe(1)
  })

  test('are fetched again for a key that was added', async () => {
    const { clock, server, tokens } = await setup()
    expect(await tokens.verify(await fresh(k1), IP)).toMatchObject({ user: 'u1' })
    server.publish(k1.jwk, k2.jwk)
    const young = await fresh(k2)
    expect(await tokens.verify(young, IP)).toBe('invalid_token')
    clock.advance(9_999)
    expect(await tokens.verify(young, IP)).toBe('invalid_token')
    clock.advance(1)
    expect(await tokens.verify(young, IP)).toMatchObject({ user: 'u1' })
    expect(server.fetches()).toBe(2)
  })

  test('are fetched again after ten minutes, so that a withdrawn key expires', async () => {
    const { clock, server, tokens } = await setup({ keys: [k1.jwk, k2.jwk] })
    const [old, kept] = [await fresh(k1), await fresh(k2)]
    expect(await tokens.verify(old, IP)).toMatchObject({ user: 'u1' })
    server.publish(k2.jwk)
    clock.advance(599_999)
    expect(tokens.verify(old, IP)).toMatchObject({ user: 'u1' })
    clock.advance(1)
    // No call waits for the fetch: the old keys are used until the new ones arrive.
    expect(tokens.verify(old, IP)).toMatchObject({ user: 'u1' })
    await fetched(server, 2)
    while (tokens.stats().published?.keys !== 1) await setImmediate()
    expect(await tokens.verify(old, IP)).toBe('invalid_token')
    expect(await tokens.verify(kept, IP)).toMatchObject({ user: 'u1' })
    expect(tokens.stats().published).toMatchObject({ ageMs: 0 })
  })

  test('with a single key verify tokens that name none', async () => {
    const { clock, server, tokens } = await setup()
    expect(await tokens.verify(await fresh(k1, { kid: undefined }), IP)).toMatchObject({
      user: 'u1',
    })
    server.publish(k1.jwk, k2.jwk)
    clock.advance(10_000)
    await tokens.verify(await fresh(k2), IP)
    expect(await tokens.verify(await fresh(k1, { kid: undefined }), IP)).toBe('invalid_token')
  })
})

describe('a failed fetch of published keys', () => {
  const ways: readonly [string, Parameters<JwksServer['answer']>[0], string][] = [
    ['fails', (response) => void response.writeHead(500).end('{}'), 'found status 500'],
    ['redirects', (response) => redirect(response), 'found status 302'],
    ['says nonsense', (response) => void response.end('<html>'), 'JSON'],
    ['has no keys', (response) => void response.end('{"keys":[]}'), 'found no public key'],
    ['is too large', (response) => flood(response), 'found more than 262144 bytes'],
    ['hangs up', (response) => response.destroy(), ''],
    ['never answers', () => {}, 'timeout'],
    ['never ends', (response) => void response.write('{'), 'timeout'],
  ]

  test.each(ways)('because the issuer %s keeps the last good keys', async (_, how, problem) => {
    const { clock, server, tokens, warnings } = await setup({ timeoutMs: 2000 })
    expect(await tokens.verify(await fresh(k1), IP)).toMatchObject({ user: 'u1' })
    server.answer(how)
    clock.advance(10_000)
    expect(await tokens.verify(await fresh(k2), IP)).toBe('unverified_token')
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toContain(problem)
    expect(warnings[0]).toContain('/jwks.json: ')
    expect(await tokens.verify(await fresh(k1), IP)).toMatchObject({ user: 'u1' })
    expect(tokens.stats().published).toMatchObject({ failures: 1, keys: 1, ageMs: 10_000 })

    server.publish(k1.jwk, k2.jwk)
    clock.advance(10_000)
    expect(await tokens.verify(await fresh(k2), IP)).toMatchObject({ user: 'u1' })
  })

  test('without earlier keys leaves a token unverified, and is retried ten seconds later', async () => {
    const { clock, server, tokens, warnings } = await setup()
    server.answer((response) => response.destroy())
    const token = await fresh(k1)
    for (let i = 0; i < 100; i++) expect(await tokens.verify(token, IP)).toBe('unverified_token')
    expect(server.fetches()).toBe(1)
    expect(warnings).toHaveLength(1)
    server.publish(k1.jwk)
    clock.advance(10_000)
    expect(await tokens.verify(token, IP)).toMatchObject({ user: 'u1' })
  })

  test('because the issuer is down is logged with its address and nothing secret', async () => {
    const warnings: string[] = []
    const tokens = await createTokenVerifier({
      config: jwtConfig({
        jwks: { url: 'http://u:password@127.0.0.1:1/keys?token=secret', algorithms: ['ES256'] },
      }),
      clock: testClock(),
      ipv6Prefix: 64,
      warn: (message) => warnings.push(message),
    })
    open.push({ [Symbol.asyncDispose]: () => tokens.close() })
    expect(await patiently(tokens).verify(await fresh(k1), IP)).toBe('unverified_token')
    expect(warnings).toEqual([
      'identity.jwt.jwks: http://127.0.0.1:1/keys: connect ECONNREFUSED 127.0.0.1:1; ' +
        'the last good keys stay',
    ])
  })

  test('bounds the waiting tokens with invented keys, and delays no other', async () => {
    const { clock, server, tokens } = await setup()
    await tokens.verify(await fresh(k1), IP)
    server.answer(() => {})
    clock.advance(10_000)
    const token = await fresh(k1)
    const header = (kid: string) =>
      Buffer.from(JSON.stringify({ alg: 'ES256', kid })).toString('base64url')
    const verdicts = Array.from({ length: 1500 }, (_, i) =>
      tokens.verify(token.replace(/^[^.]+/, header(`k${i}x`)), IP),
    )
    expect(verdicts.filter((verdict) => verdict === 'unverified_token')).toHaveLength(500)
    expect(await tokens.verify(token, IP)).toMatchObject({ user: 'u1' })
    await tokens.close()
  })

  test('leaves no waiters when the server stops', async () => {
    const { server, tokens, warnings } = await setup()
    server.answer(() => {})
    const waiting = tokens.verify(await fresh(k1), IP)
    await fetched(server, 1)
    await tokens.close()
    expect(await waiting).toBe('unverified_token')
    expect(await tokens.verify(await fresh(k1), IP)).toBe('unverified_token')
    expect(warnings).toEqual([])
  })
})

describe('a fetch of published keys in progress', () => {
  const SOON_MS = 20

  test('delays each token for a bounded time, and later ones get the result', async () => {
    const { server, tokens } = await setup()
    let answer = () => {}
    server.answer((response) => {
      answer = () => void response.end(JSON.stringify({ keys: [k1.jwk] }))
    })
    const token = await fresh(k1)
    const invented = await fresh({ ...k1, kid: 'invented' })
    // The fetch may take five seconds, and has neither ended nor failed.
    for (const waiting of [token, invented, token, invented]) {
      expect(await tokens.verify(waiting, IP, SOON_MS)).toBe('unverified_token')
    }
    expect(tokens.stats().published).toMatchObject({ fetches: 1, failures: 0, keys: 0 })
    await fetched(server, 1)
    answer()
    while (tokens.stats().published?.keys !== 1) await setImmediate()
    expect(await tokens.verify(await fresh(k1), IP)).toMatchObject({ user: 'u1' })
    expect(await tokens.verify(token, IP)).toMatchObject({ user: 'u1' })
    expect(await tokens.verify(invented, IP)).toBe('invalid_token')
    expect(server.fetches()).toBe(1)
  })

  test('delays the identifier as long as its caller allows', async () => {
    const { server, tokens } = await setup()
    server.answer(() => {})
    const door = createTestIdentifier({ tokens, jwt: jwtConfig() })
    const request = requestFrom([['authorization', `Bearer ${await fresh(k1)}`]])
    expect(await door.identify(request, SOON_MS)).toMatchObject({
      attributes: { ip: IP },
      problem: 'unverified_token',
    })
    expect(tokens.stats().published).toMatchObject({ fetches: 1, failures: 0 })
  })

  test('lets those with a longer deadline wait longer for the same token', async () => {
    const { server, tokens } = await setup()
    let answer = () => {}
    server.answer((response) => {
      answer = () => void response.end(JSON.stringify({ keys: [k1.jwk] }))
    })
    const token = await fresh(k1)
    const patient = tokens.verify(token, IP, 60_000)
    expect(await tokens.verify(token, IP, SOON_MS)).toBe('unverified_token')
    await fetched(server, 1)
    answer()
    expect(await patient).toMatchObject({ user: 'u1' })
  })
})

describe('a published key', () => {
  const verdictOf = async (
    jwk: unknown,
    signer: Signer,
    algorithms: readonly JwtAlgorithm[],
    header: Record<string, unknown> = {},
  ) => {
    const { tokens } = await setup({ keys: [{ junk: 1 }, null, jwk, k2.jwk], algorithms })
    return tokens.verify(await fresh(signer, header), IP)
  }

  test('without alg has the one configured algorithm that fits it', async () => {
    const plain = { ...rsa.jwk, alg: undefined }
    expect(await verdictOf(plain, rsa, ['RS256', 'ES256'])).toMatchObject({ user: 'u1' })
    expect(await verdictOf(plain, rsa, ['RS256', 'PS256', 'ES256'])).toBe('invalid_token')
    const curve = { ...k1.jwk, alg: undefined }
    expect(await verdictOf(curve, k1, ['ES256', 'ES384'])).toMatchObject({ user: 'u1' })
  })

  test('may share its name with one of another algorithm', async () => {
    const both: Signer = { ...rsa, kid: 'k1', jwk: { ...rsa.jwk, kid: 'k1' } }
    const algorithms: JwtAlgorithm[] = ['RS256', 'ES256', 'ES384']
    const { server, tokens } = await setup({ keys: [both.jwk, k1.jwk], algorithms })
    expect(await tokens.verify(await fresh(both), IP)).toMatchObject({ user: 'u1' })
    expect(await tokens.verify(await fresh(k1), IP)).toMatchObject({ user: 'u1' })
    // Each key keeps its one algorithm, and an algorithm without a key causes no fetch or
    // verification.
    const [, ...rest] = (await fresh(k1)).split('.')
    for (const alg of ['RS256', 'ES384', 'HS256', 'none']) {
      const header = Buffer.from(JSON.stringify({ alg, kid: 'k1' })).toString('base64url')
      expect(await tokens.verify([header, ...rest].join('.'), IP)).toBe('invalid_token')
    }
    expect(server.fetches()).toBe(1)
    expect(tokens.stats().verified).toBe(3)
  })

  test('of an algorithm that is not configured is ignored', async () => {
    expect(await verdictOf(rsa.jwk, rsa, ['ES256'])).toBe('invalid_token')
    expect(await verdictOf({ ...rsa.jwk, alg: 'HS256' }, rsa, ['HS256', 'ES256'])).toBe(
      'invalid_token',
    )
  })

  test('that is symmetric, private, damaged or for encryption is ignored', async () => {
    const secret = Buffer.alloc(32, 7)
    const hmac = await crypto.subtle.importKey(
      'raw',
      secret,
      { name: 'HMAC', hash: 'SHA-256' },
      false,
      ['sign'],
    )
    const oct = { kty: 'oct', k: secret.toString('base64url'), kid: 'h1', alg: 'HS256' }
    const shared: Signer = { ...k1, kid: 'h1', algorithm: 'HS256', privateKey: hmac }
    expect(await verdictOf(oct, shared, ['HS256', 'ES256'])).toBe('invalid_token')
    const { d } = await crypto.subtle.exportKey('jwk', k1.privateKey)
    expect(await verdictOf({ ...k1.jwk, d }, k1, ['ES256'])).toBe('invalid_token')
    expect(await verdictOf({ ...k1.jwk, x: 'AAAA' }, k1, ['ES256'])).toBe('invalid_token')
    expect(await verdictOf({ ...k1.jwk, use: 'enc' }, k1, ['ES256'])).toBe('invalid_token')
    expect(await verdictOf({ ...k1.jwk, key_ops: ['sign'] }, k1, ['ES256'])).toBe('invalid_token')
  })
})

function redirect(response: Parameters<Parameters<JwksServer['answer']>[0]>[0]): void {
  response.writeHead(302, { Location: 'http://127.0.0.1:1/' }).end()
}

function flood(response: Parameters<Parameters<JwksServer['answer']>[0]>[0]): void {
  response.on('error', () => {})
  response.end(' '.repeat(300 * 1024))
}

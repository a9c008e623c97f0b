import { createHmac } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { exportSPKI } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { JwtConfig } from '../../config/config.js'
import { createTestIdentifier, knownKey, requestFrom } from '../identify.test-helper.js'
import {
  createSigner,
  jwtConfig,
  NOW_S,
  patiently,
  type Signer,
  sign,
  testClock,
  verifyAll,
  writeFile,
} from './token-verifier.test-helper.js'
import {
  createTokenVerifier,
  FAILURES_BURST,
  FAILURES_PER_SECOND,
  TOKEN_LENGTH_MAX,
  type TokenVerifier,
} from './token-verifier.js'

const IP = '198.51.100.7'

let rsa: Signer
let other: Signer
let pem: string
const open: TokenVerifier[] = []

beforeAll(async () => {
  rsa = await createSigner('k1', 'RS256')
  other = await createSigner('k1', 'RS256')
  pem = await exportSPKI(rsa.publicKey)
})

afterAll(async () => {
  for (const verifier of open) await verifier.close()
})

async function create(changes: Partial<JwtConfig> = {}) {
  const clock = testClock()
  const keys = [{ kid: 'k1', algorithm: 'RS256', file: writeFile('key.pem', pem) } as const]
  const config = jwtConfig({ keys, ...changes })
  const tokens = patiently(await createTokenVerifier({ config, clock, ipv6Prefix: 64 }))
  open.push(tokens)
  return { tokens, clock, config }
}

/** A token with a given header and signature. */
function forge(header: unknown, payload: unknown, signature: (input: string) => string): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const input = `${part(header)}.${part(payload)}`
  return `${input}.${signature(input)}`
}

const claims = { sub: 'u1', exp: NOW_S + 3600 }

describe('a good token', () => {
  test('yields the user and the plan it was signed with', async () => {
    const { tokens } = await create()
    const token = await sign(rsa, { plan: 'pro' })
    expect(await tokens.verify(token, IP)).toEqual({ user: 'u1', plan: 'pro' })
  })

  test('may name its user by an integer, in another claim', async () => {
    const { tokens } = await create({ userClaim: 'uid', planClaim: 'tier' })
    const token = await sign(rsa, { uid: 42, tier: 'free' })
    expect(await tokens.verify(token, IP)).toEqual({ user: '42', plan: 'free' })
  })

  test('whose plan is not a string has none', async () => {
    const { tokens } = await create()
    const token = await sign(rsa, { plan: ['pro'] })
    expect(await tokens.verify(token, IP)).toEqual({ user: 'u1', plan: undefined })
  })

  test('with the configured issuer and audience is accepted', async () => {
    const { tokens } = await create({ issuer: 'https://id.example', audience: 'api' })
    const token = await sign(rsa, { iss: 'https://id.example', aud: ['web', 'api'] })
    expect(await tokens.verify(token, IP)).toMatchObject({ user: 'u1' })
  })

  test('has thirty seconds of leeway at both ends', async () => {
    const { tokens } = await create()
    const late = await sign(rsa, { exp: NOW_S - 29 })
    const early = await sign(rsa, { nbf: NOW_S + 30 })
    expect(await tokens.verify(late, IP)).toMatchObject({ user: 'u1' })
    expect(await tokens.verify(early, IP)).toMatchObject({ user: 'u1' })
  })
})

describe('a token yields no identity', () => {
  const strict = { issuer: 'https://id.example', audience: 'api' }
  const good = { iss: strict.issuer, aud: strict.audience }

  test.each<[string, string, () => string | Promise<string>]>([
    ['expired', 'expired_token', () => sign(rsa, { ...good, exp: NOW_S - 30 })],
    ['without exp', 'invalid_token', () => sign(rsa, { ...good, exp: undefined })],
    ['not yet valid', 'invalid_token', () => sign(rsa, { ...good, nbf: NOW_S + 31 })],
    ['of another issuer', 'invalid_token', () => sign(rsa, { ...good, iss: 'https://evil' })],
    ['of no issuer', 'invalid_token', () => sign(rsa, { aud: 'api' })],
    ['for others', 'invalid_token', () => sign(rsa, { ...good, aud: 'web' })],
    ['for nobody', 'invalid_token', () => sign(rsa, { iss: strict.issuer })],
    ['without a user', 'invalid_token', () => sign(rsa, { ...good, sub: undefined })],
    ['with an empty user', 'invalid_token', () => sign(rsa, { ...good, sub: '' })],
    ['with a long user', 'invalid_token', () => sign(rsa, { ...good, sub: 'u'.repeat(1025) })],
    ['signed by another key', 'invalid_token', () => sign(other, good)],
    ['of an unknown kid', 'invalid_token', () => sign({ ...rsa, kid: 'k2' }, good)],
    [
      'of a kid that is a name of objects',
      'invalid_token',
      () => sign({ ...rsa, kid: '__proto__' }),
    ],
    ['with a fraction as user', 'invalid_token', () => sign(rsa, { ...good, sub: 1.5 })],
    [
      'with alg none',
      'invalid_token',
      () => forge({ alg: 'none', kid: 'k1' }, { ...claims, ...good }, () => ''),
    ],
    [
      'with the public key as secret',
      'invalid_token',
      () =>
        forge({ alg: 'HS256', kid: 'k1' }, { ...claims, ...good }, (input) =>
          createHmac('sha256', pem).update(input).digest('base64url'),
        ),
    ],
    [
      'whose key is in its own header',
      'invalid_token',
      () => sign(other, good, { jwk: other.jwk, kid: undefined }),
    ],
    [
      'with an extension nobody knows',
      'invalid_token',
      () => forge({ alg: 'RS256', kid: 'k1', crit: ['exp'], exp: 1 }, claims, () => 'AAAA'),
    ],
    [
      'that was tampered with',
      'invalid_token',
      async () => {
        const [header, , signature] = (await sign(rsa, good)).split('.')
        const payload = Buffer.from(JSON.stringify({ ...claims, ...good, sub: 'admin' }))
        return [header, payload.toString('base64url'), signature].join('.')
      },
    ],
    [
      'without a signature',
      'invalid_token',
      async () => (await sign(rsa, good)).replace(/[^.]+$/, ''),
    ],
    ['that is garbage', 'invalid_token', () => 'garbage'],
    ['that is empty', 'invalid_token', () => ''],
    ['of dots', 'invalid_token', () => '....'],
    ['that is no JSON', 'invalid_token', () => 'AAAA.BBBB.CCCC'],
    ['that is huge', 'invalid_token', () => 'a'.repeat(TOKEN_LENGTH_MAX + 1)],
  ])('if it is %s: %s', async (_, problem, make) => {
    const { tokens } = await create(strict)
    expect(await tokens.verify(await make(), IP)).toBe(problem)
  })

  test('if it names no key where several have names', async () => {
    const keys = ['k1', 'k2'].map(
      (kid) => ({ kid, algorithm: 'RS256', file: writeFile('key.pem', pem) }) as const,
    )
    const { tokens } = await create({ keys })
    const unnamed = await sign(rsa, {}, { kid: undefined })
    expect(await tokens.verify(unnamed, IP)).toBe('invalid_token')
    const one = await create()
    expect(await one.tokens.verify(unnamed, IP)).toMatchObject({ user: 'u1' })
  })

  test('and costs no signature check if its header already rules it out', async () => {
    const { tokens } = await create()
    await tokens.verify(
      forge({ alg: 'none', kid: 'k1' }, claims, () => ''),
      IP,
    )
    await tokens.verify(await sign({ ...rsa, kid: 'k2' }), IP)
    await tokens.verify(`${await sign(rsa)}${'a'.repeat(TOKEN_LENGTH_MAX)}`, IP)
    expect(tokens.stats().verified).toBe(0)
  })
})

describe('a verdict is cached', () => {
  test('until the token expires, and returned at once', async () => {
    const { tokens, clock } = await create()
    const token = await sign(rsa, { exp: NOW_S + 100 })
    expect(await tokens.verify(token, IP)).toMatchObject({ user: 'u1' })
    clock.advance(129_999)
    expect(tokens.verify(token, IP)).toMatchObject({ user: 'u1' })
    expect(tokens.stats()).toMatchObject({ verified: 1, remembered: 1 })
    clock.advance(1)
    expect(await tokens.verify(token, IP)).toBe('expired_token')
    expect(tokens.stats().verified).toBe(2)
  })

  test('so that one token that is sent a hundred times at once is verified once', async () => {
    const { tokens } = await create()
    const token = await sign(rsa)
    const copies = Array.from({ length: 100 }, () => token)
    const verdicts = await verifyAll(tokens, copies, (at) => `198.51.100.${at}`)
    expect(new Set(verdicts.map((verdict) => JSON.stringify(verdict))).size).toBe(1)
    expect(tokens.stats().verified).toBe(1)
  })

  test('for ten seconds if the token is bad, and not at all if it is not yet valid', async () => {
    const { tokens, clock } = await create()
    const bad = await sign(other)
    expect(await tokens.verify(bad, IP)).toBe('invalid_token')
    expect(tokens.verify(bad, IP)).toBe('invalid_token')
    clock.advance(10_000)
    expect(await tokens.verify(bad, IP)).toBe('invalid_token')
    expect(tokens.stats().verified).toBe(2)

    const early = await sign(rsa, { nbf: clock.now() / 1000 + 31 })
    expect(await tokens.verify(early, IP)).toBe('invalid_token')
    clock.advance(1000)
    expect(await tokens.verify(early, IP)).toMatchObject({ user: 'u1' })
  })
})

describe('many concurrent tokens', () => {
  test('are verified in turn, each within a bounded time', async () => {
    const { tokens } = await create()
    const signed = await Promise.all(
      Array.from({ length: 300 }, (_, i) => sign(rsa, { sub: `u${i}` })),
    )
    const SOON_MS = 1
    const verdicts = await Promise.all(
      signed.map(async (token, i) => tokens.verify(token, `2001:db8:0:${i}::1`, SOON_MS)),
    )
    expect(verdicts.at(-1)).toBe('unverified_token')
    while (tokens.stats().verified < signed.length) await setImmediate()
    expect(await tokens.verify(signed.at(-1) ?? '', IP)).toMatchObject({ user: 'u299' })
    expect(tokens.stats().verified).toBe(signed.length)
  })
})

describe('bad tokens are limited by address,', () => {
  const bad = (i: number) => forge({ alg: 'RS256', kid: 'k1' }, { ...claims, i }, () => 'AAAA')
  const badOnes = (count: number) => Array.from({ length: count }, (_, i) => bad(i))

  test('so that a flood costs a few signature checks', async () => {
    const { tokens, clock } = await create()
    const verdicts = await verifyAll(tokens, badOnes(500), () => IP)
    expect(verdicts.filter((verdict) => verdict === 'invalid_token')).toHaveLength(FAILURES_BURST)
    expect(verdicts.filter((verdict) => verdict === 'token_failures')).toHaveLength(
      500 - FAILURES_BURST,
    )
    expect(tokens.stats().verified).toBe(FAILURES_BURST)

    const token = await sign(rsa)
    expect(await tokens.verify(token, IP)).toBe('token_failures')
    expect(await tokens.verify(token, '198.51.100.8')).toMatchObject({ user: 'u1' })
    clock.advance(1000)
    for (let i = 0; i < FAILURES_PER_SECOND; i++) {
      expect(await tokens.verify(bad(1000 + i), IP)).toBe('invalid_token')
    }
    expect(await tokens.verify(bad(2000), IP)).toBe('token_failures')
  })

  test('but a good user of the address is not, once its token is cached', async () => {
    const { tokens } = await create()
    const token = await sign(rsa)
    await tokens.verify(token, IP)
    await verifyAll(tokens, badOnes(100), () => IP)
    expect(tokens.verify(token, IP)).toMatchObject({ user: 'u1' })
  })

  test('but good tokens are not: a hundred users of one address come at once', async () => {
    const { tokens } = await create()
    const signed = await Promise.all(
      Array.from({ length: 100 }, (_, i) => sign(rsa, { sub: `u${i}` })),
    )
    const verdicts = await verifyAll(tokens, signed, () => IP)
    expect(verdicts).toEqual(signed.map((_, i) => ({ user: `u${i}`, plan: undefined })))
  })

  test('and all addresses of one /64 share the limit', async () => {
    const { tokens } = await create()
    for (let i = 0; i < 100; i++) await tokens.verify(bad(i), `2001:db8::${i}`)
    expect(tokens.stats().verified).toBe(FAILURES_BURST)
  })

  test('and a limited address does not affect another with the same token', async () => {
    const { tokens } = await create()
    for (let i = 0; i < FAILURES_BURST; i++) await tokens.verify(bad(i), IP)
    const token = await sign(rsa)
    const [limited, fine] = await verifyAll(tokens, [token, token], (at) =>
      at === 0 ? IP : '198.51.100.8',
    )
    expect(limited).toBe('token_failures')
    expect(fine).toMatchObject({ user: 'u1' })
  })

  test('and all calls of a limited address with one token get the same result', async () => {
    const { tokens } = await create()
    for (let i = 0; i < FAILURES_BURST; i++) await tokens.verify(bad(i), IP)
    const token = await sign(rsa)
    const verdicts = await verifyAll(tokens, [token, token, token, token], () => IP)
    expect(new Set(verdicts)).toEqual(new Set(['token_failures']))
  })

  test('and many limited tokens do not make another wait for each of them', async () => {
    const { tokens } = await create()
    const limited = ['198.51.100.1', '198.51.100.2', '198.51.100.3']
    for (const ip of limited) {
      await verifyAll(
        tokens,
        badOnes(50).map((token) => `${token}${ip.at(-1)}`),
        () => ip,
      )
    }
    const token = await sign(rsa)
    const asking = [...limited, IP]
    const verdicts = await verifyAll(
      tokens,
      asking.map(() => token),
      (at) => asking[at] ?? '',
    )
    expect(verdicts[0]).toBe('token_failures')
    expect(verdicts[3]).toBe('unverified_token')
    expect(await tokens.verify(token, IP)).toMatchObject({ user: 'u1' })
  })
})

describe('the identifier', () => {
  test('takes the user from a token if no key names one, and only Bearer is a token', async () => {
    const { tokens, config } = await create()
    const door = createTestIdentifier({
      tokens,
      jwt: config,
      keys: [knownKey('of-an-app', { plan: 'partner' }), knownKey('of-a-user', { user: 'u9' })],
    })
    const bearer: [string, string] = ['Authorization', `bEARER ${await sign(rsa, { plan: 'pro' })}`]
    const attributes = async (...headers: [string, string][]) =>
      (await door.identify(requestFrom(headers))).attributes
    expect(await attributes(bearer)).toEqual({ ip: IP, user: 'u1', plan: 'pro' })
    expect(await attributes(bearer, ['x-api-key', 'of-an-app'])).toMatchObject({
      user: 'u1',
      plan: 'partner',
    })
    // The plan of one user is not used for another.
    const both = await attributes(bearer, ['x-api-key', 'of-a-user'])
    expect(both).toEqual({ ip: IP, user: 'u9', api_key: expect.any(String) })
    expect(await attributes(['Authorization', 'Basic dTpw'])).toEqual({ ip: IP })
    expect(door.stats().problems).toMatchObject({ invalid_token: 0 })
  })

  test('uses a cached token at once, and counts a bad one and treats it as anonymous', async () => {
    const { tokens, config } = await create()
    const door = createTestIdentifier({ tokens, jwt: config })
    const request = requestFrom([['authorization', `Bearer ${await sign(rsa)}`]])
    expect(door.identify(request)).toBeInstanceOf(Promise)
    await door.identify(request)
    expect(door.identify(request)).toMatchObject({ attributes: { user: 'u1' }, problem: undefined })
    expect(await door.identify(requestFrom([['authorization', 'Bearer x']]))).toMatchObject({
      attributes: { ip: IP },
      problem: 'invalid_token',
    })
    expect(door.stats().problems.invalid_token).toBe(1)
    expect(door.stats().tokens).toMatchObject({ verified: 1 })
  })

  test.each(['Bearer', 'Bearer '])('"%s" without a token is no token', async (authorization) => {
    const { tokens, config } = await create()
    const identifier = createTestIdentifier({ tokens, jwt: config })
    expect(
      await identifier.identify(requestFrom([['authorization', authorization]])),
    ).toMatchObject({ attributes: { ip: IP }, problem: undefined })
    expect(identifier.stats().problems.invalid_token).toBe(0)
  })

  test('refuses a token beside another as ambiguous', async () => {
    const { tokens, config } = await create()
    const door = createTestIdentifier({ tokens, jwt: config })
    const bearer: [string, string] = ['authorization', `Bearer ${await sign(rsa)}`]
    expect(await door.identify(requestFrom([bearer, bearer]))).toMatchObject({
      attributes: { ip: IP },
      problem: 'ambiguous_header',
    })
  })
})

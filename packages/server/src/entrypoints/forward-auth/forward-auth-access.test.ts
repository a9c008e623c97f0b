import { parseTrustedProxies } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { createIdentifier, type Identifier, type Identity } from '../../identity/identify.js'
import { identityConfig, knownKey, SECRET } from '../../identity/identify.test-helper.js'
import { jwtConfig, serveJwks, testClock } from '../../identity/jwt/token-verifier.test-helper.js'
import { createTokenVerifier } from '../../identity/jwt/token-verifier.js'
import { closeAfterTests, startApi } from '../decision-api/decision-api.test-helper.js'
import {
  AUTH,
  CLIENT,
  headers,
  orders,
  RULES,
  trusting,
  wasCounted,
} from './forward-auth.test-helper.js'
import { propertyRuns } from '../../../../../tools/property-runs.js'

closeAfterTests()

describe('access to forward-auth', () => {
  test('is for trusted proxies only, and others get the reason', async () => {
    const api = await startApi({ rules: RULES, trusted: ['10.0.0.0/8'] })
    const { status, body } = await api.send(AUTH, orders())
    expect(status).toBe(403)
    expect(body).toEqual({
      type: 'about:blank',
      title: 'Forbidden',
      status: 403,
      detail: '127.0.0.1 is not a trusted proxy. SLUICE_TRUSTED_PROXIES lists those that may ask.',
      error: 'untrusted_proxy',
    })
  })

  const forged = propertyRuns(10_000)
  test(`charges nothing for ${forged} forged headers of untrusted peers`, async () => {
    const api = await startApi({ rules: RULES })
    const names = [
      'x-forwarded-for',
      'forwarded',
      'x-real-ip',
      'cf-connecting-ip',
      'true-client-ip',
    ]
    let refused = 0
    for (let round = 0; round < forged; round += 50) {
      const requests = Array.from({ length: 50 }, (_, index) => {
        const name = names[index % names.length] ?? ''
        const ip = `203.0.113.${(round + index) % 256}`
        const value = name === 'forwarded' ? `for=${ip}` : ip
        return api.send(AUTH, orders({ [name]: value, 'x-api-key': `k${round + index}` }))
      })
      for (const { status } of await Promise.all(requests)) if (status === 403) refused++
    }
    expect(refused).toBe(forged)
    expect(await wasCounted(api)).toBe(false)
  })

  test('needs no API token, and the token gives no trust', async () => {
    const trusted = await trusting({ token: 'api-token-0123456789' })
    expect((await trusted.send(AUTH, orders())).status).toBe(200)
    const untrusted = await startApi({ token: 'api-token-0123456789' })
    const sent = { token: 'api-token-0123456789', ...orders() }
    expect((await untrusted.send(AUTH, sent)).status).toBe(403)
  })

  test('does not wait for a body', async () => {
    const api = await trusting()
    const lines = [
      'POST /v1/forward-auth HTTP/1.1',
      'host: x',
      'content-length: 5000',
      'connection: close',
    ]
    expect(await api.raw([...lines, '', ''].join('\r\n'))).toMatch(/^HTTP\/1\.1 200 OK/)
  })

  test('logs a proxy that names no client once a minute', async () => {
    const api = await trusting()
    const silent = { headers: { 'x-forwarded-method': 'POST', 'x-forwarded-uri': '/orders/1' } }
    expect((await api.send(AUTH, silent)).status).toBe(200)
    expect((await api.send(AUTH, silent)).status).toBe(429)
    expect(await wasCounted(api, '127.0.0.1')).toBe(true)
    await api.send(AUTH, orders())
    expect(api.memoryLog.lines).toMatchObject([
      {
        level: 'warn',
        proxy: '127.0.0.1',
        msg: 'forward-auth: the proxy sends no client address, so all its clients count as one caller; configure it to send x-forwarded-for',
      },
    ])
    api.clock.advance(59_999)
    await api.send(AUTH, silent)
    expect(api.memoryLog.lines).toHaveLength(1)
    api.clock.advance(1)
    await api.send(AUTH, silent)
    expect(api.memoryLog.lines).toHaveLength(2)
  })

  test('logs nothing if a proxy and its client have the same address', async () => {
    const api = await trusting()
    await api.send(AUTH, orders({ 'x-forwarded-for': '127.0.0.1' }))
    expect(api.memoryLog.lines).toEqual([])
  })
})

describe('a refusal', () => {
  test('is 403 if the configuration sets that status', async () => {
    const api = await trusting({ refusedStatus: 403 })
    await api.send(AUTH, orders())
    const { status, body, headers: sent } = await api.send(AUTH, orders())
    expect(status).toBe(403)
    expect(body).toMatchObject({ status: 403, error: 'rate_limited', retry_after_seconds: 60 })
    expect(sent['retry-after']).toBe('60')
  })

  test('replaces a delay, and charges nothing', async () => {
    const rules = [
      { id: 'paced', by: [], limits: [{ algorithm: 'leaky-bucket', max: 1, window: '1s' }] },
    ]
    const api = await trusting({ rules })
    expect((await api.send(AUTH, headers())).status).toBe(200)
    expect((await api.send(AUTH, headers())).status).toBe(429)
    const { body } = await api.post('/v1/peek', { attributes: {} })
    expect(body).toMatchObject({ allowed: true, delayMs: 1000 })
  })

  test('increases all times of a fixed window by the same jitter', async () => {
    const limits = [{ algorithm: 'fixed-window', max: 1, window: '10s' }]
    const api = await trusting({ rules: [{ id: 'w', by: [], limits }], jitter: true })
    await api.send(AUTH, headers())
    const { headers: sent, body } = await api.send(AUTH, headers())
    expect(sent).toMatchObject({
      'retry-after': '11',
      ratelimit: '"w";r=0;t=11',
      'x-ratelimit-reset': '1767225611',
    })
    expect(body).toMatchObject({ retry_after_seconds: 11 })
  })

  test('by posture is 429, whatever status the gateway uses', async () => {
    const api = await trusting({
      limiter: (limiter) => ({
        ...limiter,
        decide: async () => {
          await limiter.check({ attributes: { ip: CLIENT, method: 'POST', path: '/orders/1' } })
          const refused = await limiter.check({
            attributes: { ip: CLIENT, method: 'POST', path: '/orders/1' },
          })
          return Object.assign(refused, { reason: 'posture' as const })
        },
      }),
    })
    const { status, body } = await api.send(AUTH, orders())
    expect(status).toBe(429)
    expect(body).toMatchObject({ status: 429, title: 'Temporary Reduced Capacity' })
  })

  test('differs from a failure, which is 5xx, so that the proxy applies its own policy', async () => {
    const api = await trusting({
      limiter: (limiter) => ({ ...limiter, decide: () => Promise.reject(new Error('x')) }),
    })
    expect((await api.send(AUTH, orders())).status).toBe(500)
  })
})

describe('a path that needs a user', () => {
  const requireUser = ['/orders/*']
  const identity = { keys: [knownKey('known-key-0123456789', { user: 'u1' })] }

  test('is answered 401 without one, after the call was counted', async () => {
    const api = await trusting({ requireUser, identity })
    const { status, headers: sent, body } = await api.send(AUTH, orders())
    expect(status).toBe(401)
    expect(sent['www-authenticate']).toBe('ApiKey header="x-api-key"')
    expect(sent['ratelimit']).toBe('"orders";r=0;t=60')
    expect(body).toMatchObject({ error: 'user_required' })
    expect((await api.send(AUTH, orders())).status).toBe(429)
  })

  test('is open to a known key, and to a user that the proxy names', async () => {
    const api = await trusting({ requireUser, identity })
    const known = orders({ 'x-api-key': 'known-key-0123456789' })
    expect((await api.send(AUTH, known)).status).toBe(200)
    const named = orders({ 'x-forwarded-for': '203.0.113.8', 'x-auth-user': 'u2' })
    expect((await api.send(AUTH, named)).status).toBe(200)
    const forged = orders({ 'x-forwarded-for': '203.0.113.9', 'x-api-key': 'unknown' })
    expect((await api.send(AUTH, forged)).status).toBe(401)
  })

  test('does not affect other paths', async () => {
    const api = await trusting({ requireUser, identity })
    expect((await api.send(AUTH, orders({ 'x-forwarded-uri': '/free' }))).status).toBe(200)
  })

  test.each([
    ['unverified_token', undefined, 429],
    ['token_failures', undefined, 429],
    ['unverified_token', 403, 403],
    ['invalid_token', 403, 401],
  ] as const)('never answers %s with 5xx', async (problem, refusedStatus, status) => {
    const realIdentifier = createIdentifier({
      config: identityConfig(),
      trustedProxies: [],
      forwardedHeader: 'x-forwarded-for',
      secret: SECRET,
    })
    const identified: Identity = {
      attributes: { ip: CLIENT },
      trusted: true,
      peer: '127.0.0.1',
      forwardedFor: `${CLIENT}, 127.0.0.1`,
      problem,
    }
    const identifier: Identifier = {
      ...realIdentifier,
      identify: () => Promise.resolve(identified),
    }
    const api = await trusting({ requireUser, identifier, ...(refusedStatus && { refusedStatus }) })
    const answer = await api.send(AUTH, orders())
    expect(answer.status).toBe(status)
    expect(answer.body).toMatchObject({ status, error: problem })
  })
})

describe('a token whose key is unknown', () => {
  const BOUND_MS = 200

  test('is not waited for: the call is decided by its address meanwhile', async () => {
    // The issuer never answers, and the fetch would wait five seconds.
    const issuer = await serveJwks()
    issuer.answer(() => {})
    const jwt = jwtConfig({ jwks: { url: issuer.url, algorithms: ['ES256'] } })
    const tokens = await createTokenVerifier({ config: jwt, clock: testClock(), ipv6Prefix: 64 })
    const realIdentifier = createIdentifier({
      config: identityConfig({ jwt }),
      trustedProxies: parseTrustedProxies(['127.0.0.1/32']).cidrs,
      forwardedHeader: 'x-forwarded-for',
      secret: SECRET,
      tokens,
    })
    const bounds: (number | undefined)[] = []
    const identify: Identifier['identify'] = (request, withinMs) => {
      bounds.push(withinMs)
      return realIdentifier.identify(request, withinMs)
    }
    const identifier: Identifier = {
      identify,
      reload: () => realIdentifier.reload(),
      stats: () => realIdentifier.stats(),
      close: () => realIdentifier.close(),
    }
    const api = await trusting({ identifier })
    const statuses: number[] = []
    for (const kid of ['k1', 'k2', 'k3']) {
      const header = Buffer.from(JSON.stringify({ alg: 'ES256', kid })).toString('base64url')
      const sent = orders({ authorization: `Bearer ${header}.e30.AAAA` })
      statuses.push((await api.send(AUTH, sent)).status)
    }
    expect(statuses).toEqual([200, 429, 429])
    expect(realIdentifier.stats().tokens?.published).toMatchObject({ fetches: 1, failures: 0 })
    for (const bound of bounds) expect(bound).toBeLessThanOrEqual(BOUND_MS)
    await realIdentifier.close()
    await issuer[Symbol.asyncDispose]()
  })
})

import { describe, expect, test } from 'vitest'
import {
  closeAfterTests,
  type ApiRequestOptions,
} from '../decision-api/decision-api.test-helper.js'
import { AUTH, CLIENT, headers, orders, trusting, wasCounted } from './forward-auth.test-helper.js'

closeAfterTests()

describe('a forwarded call', () => {
  const PROXIES: [string, string, ApiRequestOptions][] = [
    [
      'nginx',
      AUTH,
      headers({
        'x-original-uri': '/orders/1?x=1',
        'x-original-method': 'POST',
        'x-real-ip': CLIENT,
        connection: 'close',
        'content-type': 'application/json',
      }),
    ],
    [
      'Caddy',
      `${AUTH}?x=1`,
      headers({
        'x-forwarded-method': 'POST',
        'x-forwarded-uri': '/orders/1?x=1',
        'x-forwarded-proto': 'https',
        'x-forwarded-host': 'api.example',
      }),
    ],
    [
      'Traefik',
      AUTH,
      headers({
        'x-forwarded-method': 'POST',
        'x-forwarded-uri': '/orders/1?x=1',
        'x-forwarded-proto': 'https',
        'x-forwarded-host': 'api.example',
        'x-forwarded-port': '443',
      }),
    ],
    [
      'Traefik with the original method',
      AUTH,
      { method: 'POST', ...orders({ 'content-length': '0' }) },
    ],
    ['HAProxy, its own client', AUTH, orders()],
    ['HAProxy, auth-request', AUTH, { method: 'HEAD', ...orders() }],
    ['Envoy', `${AUTH}/orders/1?x=1`, { method: 'POST', ...headers({ 'content-length': '0' }) }],
    ['absolute', AUTH, orders({ 'x-forwarded-uri': 'https://api.example/orders/1?x=1' })],
    ['small letters', AUTH, orders({ 'x-forwarded-method': 'post' })],
    [
      'both, the same',
      AUTH,
      orders({ 'x-original-uri': '/orders/1', 'x-original-method': 'POST' }),
    ],
    ['both, spelled in two ways', AUTH, orders({ 'x-original-uri': '/%6frders/1?y' })],
    ['an upgrade', AUTH, orders({ connection: 'upgrade', upgrade: 'websocket' })],
    [
      'a page of its client',
      AUTH,
      orders({ origin: 'https://api.example', 'sec-fetch-site': 'cross-site' }),
    ],
  ]

  test.each(PROXIES)('%s: 200, then 429', async (_proxy, path, sent) => {
    const api = await trusting()
    const allowed = await api.send(path, sent)
    expect([allowed.status, allowed.text]).toEqual([200, ''])
    expect(allowed.headers).toMatchObject({
      'content-length': '0',
      ratelimit: '"orders";r=0;t=60',
      'ratelimit-policy': '"orders";q=1;w=60',
      'x-ratelimit-limit': '1',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': '1767225660',
    })
    expect(allowed.headers).not.toHaveProperty('retry-after')
    expect(await wasCounted(api)).toBe(true)

    const refused = await api.send(path, sent)
    expect(refused.status).toBe(429)
    expect(refused.headers).toMatchObject({
      'retry-after': '60',
      'cache-control': 'no-store',
      'content-type': 'application/problem+json',
      ratelimit: '"orders";r=0;t=60',
    })
    if (sent.method === 'HEAD') expect(refused.text).toBe('')
    else
      expect(refused.body).toMatchObject({
        status: 429,
        error: 'rate_limited',
        'violated-policies': ['orders'],
      })
  })

  test('that no rule matches is allowed without rate limit headers', async () => {
    const api = await trusting()
    for (const path of [AUTH, `${AUTH}/`, `${AUTH}/other`]) {
      const answer = await api.send(path, headers())
      expect(answer.status).toBe(200)
      expect(answer.headers).not.toHaveProperty('ratelimit')
    }
  })

  test('without a path has the path /', async () => {
    const rules = [{ id: 'root', match: { path: '/' }, by: [], limits: ['9/minute'] }]
    const api = await trusting({ rules })
    for (const [index, path] of [AUTH, `${AUTH}/`, `${AUTH}?x=1`].entries()) {
      const answer = await api.send(path, headers())
      expect(answer.headers['x-ratelimit-remaining']).toBe(String(8 - index))
    }
  })

  test.each(['GET', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'PROPFIND', 'PURGE'])(
    'has the method %s of the request if no header has another',
    async (method) => {
      const rules = [{ id: 'r', match: { method }, by: [], limits: ['5/minute'] }]
      const api = await trusting({ rules })
      const answer = await api.send(`${AUTH}/x`, { method, ...headers() })
      expect(answer.headers['x-ratelimit-remaining']).toBe('4')
    },
  )

  test('is counted by the client address in the configured header', async () => {
    const api = await trusting({ forwardedHeader: 'forwarded' })
    const from = (ip: string) =>
      api.send(AUTH, orders({ 'x-forwarded-for': '198.51.100.1', forwarded: `for=${ip}` }))
    expect((await from('203.0.113.1')).status).toBe(200)
    expect((await from('203.0.113.2')).status).toBe(200)
    expect((await from('203.0.113.1')).status).toBe(429)
  })
})

describe('an ambiguous forwarded call', () => {
  const TWICE = 'header was sent more than once.'
  test.each([
    [
      'a dot segment',
      { 'x-forwarded-uri': '/a/../orders/1' },
      'CALL_PATH_INVALID',
      'x-forwarded-uri: found a dot segment',
    ],
    [
      'a doubled slash',
      { 'x-forwarded-uri': '//orders/1' },
      'CALL_PATH_INVALID',
      'x-forwarded-uri: found a doubled slash',
    ],
    [
      'an encoded slash',
      { 'x-forwarded-uri': '/orders%2f1' },
      'CALL_PATH_INVALID',
      'x-forwarded-uri: found',
    ],
    [
      'no path',
      { 'x-forwarded-uri': 'orders' },
      'CALL_PATH_INVALID',
      'x-forwarded-uri: found "orders"',
    ],
    ['an empty path', { 'x-forwarded-uri': '' }, 'CALL_PATH_INVALID', 'x-forwarded-uri: found ""'],
    [
      'a path beyond ASCII',
      { 'x-forwarded-uri': '/ü' },
      'CALL_PATH_INVALID',
      'x-forwarded-uri: found',
    ],
    [
      'two addresses',
      { 'x-forwarded-uri': ['/orders/1', '/free'] },
      'CALL_INVALID',
      `The x-forwarded-uri ${TWICE}`,
    ],
    [
      'the same address twice',
      { 'x-original-uri': ['/orders/1', '/orders/1'] },
      'CALL_INVALID',
      `The x-original-uri ${TWICE}`,
    ],
    [
      'two methods',
      { 'x-forwarded-method': ['GET', 'POST'] },
      'CALL_INVALID',
      `The x-forwarded-method ${TWICE}`,
    ],
    [
      'two methods in one',
      { 'x-forwarded-method': 'GET, POST' },
      'CALL_INVALID',
      'x-forwarded-method: found "GET, POST"',
    ],
    [
      'an empty method',
      { 'x-forwarded-method': '' },
      'CALL_INVALID',
      'x-forwarded-method: found ""',
    ],
    [
      'a long method',
      { 'x-forwarded-method': 'X'.repeat(33) },
      'CALL_INVALID',
      'x-forwarded-method: found',
    ],
    [
      'the method of messages',
      { 'x-forwarded-method': 'Message' },
      'CALL_INVALID',
      'x-forwarded-method: found "Message"',
    ],
    [
      'another path in the other header',
      { 'x-original-uri': '/free' },
      'CALL_PATH_INVALID',
      'x-original-uri: found "/free"; accepted: "/orders/1", as in x-forwarded-uri',
    ],
    [
      'another method in the other header',
      { 'x-original-method': 'GET' },
      'CALL_INVALID',
      'x-original-method: found "GET"; accepted: "POST", as in x-forwarded-method',
    ],
  ])('%s is refused with 400', async (_what, more, error, detail) => {
    const api = await trusting()
    const answer = await api.send(AUTH, orders(more))
    expect(answer.status).toBe(400)
    expect(answer.body).toMatchObject({ error })
    expect((answer.body as { detail: string }).detail).toContain(detail)
    expect(await wasCounted(api)).toBe(false)
  })

  test.each([
    ['another path below', `${AUTH}/orders/2`],
    ['a doubled slash below', `${AUTH}//orders/1`],
    ['a dot segment below', `${AUTH}/../orders/1`],
  ])('%s is refused with 400', async (_what, path) => {
    const api = await trusting()
    expect((await api.send(path, orders())).status).toBe(400)
  })
})

test('a shed call never gets a 5xx, which proxies take for no answer', async () => {
  const rules = [{ id: 'fleet', by: [], limits: ['1/hour'], protects: 'capacity' }]
  const api = await trusting({ rules })
  expect((await api.send(AUTH, orders())).status).toBe(200)
  const shed = await api.send(AUTH, orders())
  expect(shed.status).toBe(429)
  expect(shed.headers['ratelimit']).toBeUndefined()
})

/** Clients that send false or malformed information. */
import { describe, expect, test } from 'vitest'
import { APP_STATUS } from './upstream-app.test-helper.js'
import { callThroughProxy, exhaustLogin } from './proxy-call.test-helper.js'
import { type CallOptions, newCaller } from './http-call.test-helper.js'
import { KEY, type ProxySetup } from './proxy-setup.test-helper.js'

export function describeLies(setup: () => ProxySetup): void {
  describe('a client that sends false information', () => {
    const LIES = {
      'x-forwarded-for': '203.0.113.9',
      forwarded: 'for=203.0.113.9',
      'x-real-ip': '203.0.113.9',
      'x-forwarded-uri': '/shop/1',
      'x-forwarded-method': 'DELETE',
      'x-original-uri': '/shop/1',
      'x-original-method': 'DELETE',
      'x-forwarded-host': 'evil.example',
      'x-forwarded-prefix': '/shop',
      'x-original-url': '/login',
      'x-rewrite-url': '/login',
      'x-http-method-override': 'DELETE',
      'x-http-method': 'DELETE',
      'x-method-override': 'DELETE',
      x_forwarded_for: '203.0.113.9',
      x_real_ip: '203.0.113.9',
    }

    test.each(Object.entries(LIES))(
      'stays the same caller of the same path with %s',
      async (name, value) => {
        const from = await exhaustLogin(setup())
        const asked = setup().app.requestsFrom(from).length
        const { status } = await callThroughProxy(setup(), '/login', from, {
          headers: { [name]: value },
        })
        expect(status).toBe(429)
        expect(setup().app.requestsFrom(from)).toHaveLength(asked)
      },
    )

    test('does not deceive the application either', async () => {
      const from = newCaller()
      expect((await callThroughProxy(setup(), '/shop/1', from, { headers: LIES })).status).toBe(
        APP_STATUS,
      )
      const [asked] = setup().app.requestsFrom(from)
      const passed = Object.keys(LIES).filter((name) => asked?.headers[name] !== undefined)
      const own = ['x-forwarded-for', 'x-forwarded-host', 'x-real-ip']
      expect(passed.filter((name) => !own.includes(name))).toEqual([])
      expect(asked?.headers['x-real-ip'] ?? from).toBe(from)
      expect(asked?.headers['x-forwarded-host']).toBe(`127.0.0.1:${setup().patient}`)
    })

    test('cannot remove headers of the proxy by listing them in Connection', async () => {
      const from = await exhaustLogin(setup())
      const listed = 'x-forwarded-for, x-forwarded-uri, x-forwarded-method'
      const headers = { ...LIES, connection: `close, ${listed}` }
      expect((await callThroughProxy(setup(), '/login', from, { headers })).status).toBe(429)
      await callThroughProxy(setup(), '/shop/1', from, { headers })
      expect(setup().app.requestsFrom(from).at(-1)).toMatchObject({ url: '/shop/1' })
    })

    test.each([
      '/LOGIN',
      '/login/',
      '/%6cogin',
      '/login?',
      '//login',
      '/./login',
      '/a/../login',
      '/a/..%2flogin',
      '/%2e/login',
      '/login%2f',
      '/login;v=1',
      '/login%00',
      '/shop/%2e%2e/login',
      '/shop/..%5clogin',
      'http://127.0.0.1/login',
    ])('does not evade the limit of /login with the path %s', async (target) => {
      const from = await exhaustLogin(setup())
      const { status } = await callThroughProxy(setup(), target, from)
      expect([400, 429]).toContain(status)
      expect(setup().app.requestsFrom(from)).toHaveLength(1)
    })

    const ODDITIES: readonly (readonly [string, Omit<CallOptions, 'from'>])[] = [
      ['an upgrade to a WebSocket', { headers: { connection: 'upgrade', upgrade: 'websocket' } }],
      [
        'an upgrade to HTTP/2',
        { headers: { connection: 'upgrade, http2-settings', upgrade: 'h2c' } },
      ],
      ['an expectation', { method: 'POST', headers: { expect: '100-continue' }, body: 'x' }],
      ['an unknown expectation', { method: 'POST', headers: { expect: 'more' }, body: 'x' }],
      ['trailers', { headers: { te: 'trailers', trailer: 'x-api-key' } }],
      ['a body in a GET', { body: ['a', 'b'] }],
      ['an empty body', { method: 'POST', headers: { 'content-length': 0 } }],
      ['an encoded body', { method: 'POST', headers: { 'content-encoding': 'gzip' }, body: 'x' }],
      ['a key that is no text', { headers: { 'x-api-key': '\xff\xfe' } }],
      ['an empty key', { headers: { 'x-api-key': '' } }],
      ['a broken token', { headers: { authorization: 'Bearer a.b.c' } }],
      ['two authorizations', { headers: { authorization: ['Bearer a', 'Bearer b'] } }],
      ['two lengths', { method: 'POST', headers: { 'content-length': ['1', '1'] } }],
      ['an odd host', { headers: { host: 'a'.repeat(300) } }],
      [
        'an origin',
        { headers: { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' } },
      ],
      [
        'many headers',
        { headers: Object.fromEntries(Array.from({ length: 150 }, (_, i) => [`x-${i}`, 'v'])) },
      ],
      [
        'its key taken away',
        { headers: { connection: 'close, x-api-key, host', 'x-api-key': KEY } },
      ],
      ...['HEAD', 'OPTIONS', 'PROPFIND', 'M-SEARCH', 'TRACE'].map(
        (method) => [`the method ${method}`, { method }] as const,
      ),
    ]

    test.each(ODDITIES)('does not evade the limit with %s', async (_, options) => {
      const from = await exhaustLogin(setup())
      // A proxy may also close the connection.
      const answer = await callThroughProxy(setup(), '/login', from, options).catch(() => undefined)
      expect([undefined, 400, 405, 417, 429, 501]).toContain(answer?.status)
      expect(setup().app.requestsFrom(from)).toHaveLength(1)
    })

    test('does not make Sluice look down by sending more headers than Sluice reads', async () => {
      const from = await exhaustLogin(setup())
      const loads = [8, 12, 13, 14, 15, 16, 20, 31, 64, 300, 900].flatMap((kilobytes) => [
        { path: '/login', headers: { 'x-api-key': 'k'.repeat(kilobytes * 1024) } },
        { path: '/login', headers: { host: 'h'.repeat(kilobytes * 1024) } },
        { path: '/login', headers: manyHeaders(kilobytes) },
        { path: `/login?${'q'.repeat(kilobytes * 1024)}`, headers: {} },
        { path: `/login?${'q'.repeat(kilobytes * 512)}`, headers: manyHeaders(kilobytes / 2) },
      ])
      for (const { path, headers } of loads) {
        // A proxy may also close the connection if headers are far too large; 500 is HAProxy's
        // answer to a host that it cannot write a second time.
        const answer = await callThroughProxy(setup(), path, from, { headers }).catch(
          () => undefined,
        )
        if (answer !== undefined) expect([400, 414, 429, 431, 500]).toContain(answer.status)
      }
      expect(setup().app.requestsFrom(from)).toHaveLength(1)
    })
  })
}

/** This many kilobytes in headers of one kilobyte each. */
function manyHeaders(kilobytes: number): Readonly<Record<string, string>> {
  const count = Math.ceil(kilobytes)
  return Object.fromEntries(
    Array.from({ length: count }, (_, i) => [`x-load-${i}`, 'v'.repeat(1010)]),
  )
}

import { describe, expect, test } from 'vitest'
import { ADMIN_TOKEN, API_TOKEN, closeAfterTests, startApi } from './decision-api.test-helper.js'
import { ROUTES } from './routes.js'

closeAfterTests()

const u1 = { attributes: { user: 'u1' } }
const guarded = ROUTES.filter(({ access }) => access === 'token' || access === 'admin')
/** A call is no body of these, which is found out only with the right token. */
const NEED_OTHERS = ['/v1/settle', '/v1/extend', '/v1/cancel', '/json']
const WRONG = [
  undefined,
  '',
  'Bearer',
  'Bearer x',
  `Basic ${API_TOKEN}`,
  `Bearer ${API_TOKEN}x`,
  `Bearer ${'x'.repeat(12_000)}`,
]

describe('if a token is configured,', () => {
  test('every route but three needs it', () => {
    const open = ROUTES.filter((route) => !guarded.includes(route)).map(({ path }) => path)
    expect(open).toEqual(['/v1/forward-auth', '/healthz', '/readyz'])
  })

  test.each(guarded)('$path answers every wrong token with the same 401', async ({ path }) => {
    const api = await startApi({ token: API_TOKEN })
    const answers = new Set<string>()
    for (const authorization of WRONG) {
      const headers = authorization === undefined ? {} : { authorization }
      const { status, headers: sent, text } = await api.post(path, u1, { headers })
      expect(sent['www-authenticate']).toBe('Bearer')
      expect(sent).not.toHaveProperty('ratelimit')
      answers.add(`${status} ${text}`)
    }
    expect([...answers]).toEqual([
      '401 {"type":"about:blank","title":"Unauthorized","status":401,' +
        '"detail":"Send the token of the decision API as Authorization: Bearer <token>.",' +
        '"error":"unauthorized"}',
    ])
  })

  test.each(guarded)('$path accepts the admin token', async ({ path }) => {
    const api = await startApi({ token: API_TOKEN })
    const { status } = await api.post(path, u1, { token: ADMIN_TOKEN })
    expect(status).toBe(NEED_OTHERS.includes(path) ? 400 : 200)
  })

  test('the scheme is accepted in any case', async () => {
    const api = await startApi({ token: API_TOKEN })
    for (const scheme of ['bearer', 'BEARER', 'bEaReR']) {
      const headers = { authorization: `${scheme} ${API_TOKEN}` }
      expect((await api.post('/v1/check', u1, { headers })).status).toBe(200)
    }
  })

  test('a body without authorization is not read', async () => {
    const api = await startApi({ token: API_TOKEN })
    const head =
      'POST /v1/check HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 100000000\r\n\r\n'
    expect(await api.raw(head)).toMatch(/^HTTP\/1\.1 401 Unauthorized\r\n/)
  })
})

describe('if no token is configured,', () => {
  test.each(guarded)('$path is open, unless it needs the admin token', async ({ path, access }) => {
    const api = await startApi()
    const { status, body } = await api.post(path, path === '/v1/refund' ? { receipt: 'x' } : u1)
    if (access === 'admin') {
      expect(status).toBe(401)
      expect(body).toMatchObject({
        error: 'unauthorized',
        detail: `${path} needs the admin token.`,
      })
    } else expect(status).toBe(['/v1/refund', ...NEED_OTHERS].includes(path) ? 400 : 200)
  })
})

test('/v1/reset reports to holders of the API token which token it needs', async () => {
  const api = await startApi({ token: API_TOKEN })
  const { status, body } = await api.post('/v1/reset', u1, { token: API_TOKEN })
  expect(status).toBe(403)
  expect(body).toMatchObject({ error: 'forbidden', detail: '/v1/reset needs the admin token.' })
})

describe('a web page', () => {
  const PAGE: Record<string, string>[] = [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
  ]

  test.each(ROUTES.filter(({ access }) => access !== 'proxy'))(
    'may not use $path, with a token or without',
    async ({ path, methods: [method = 'GET'] }) => {
      const api = await startApi()
      for (const headers of PAGE) {
        const answer = await api.send(
          path,
          { method, token: ADMIN_TOKEN, headers },
          JSON.stringify(u1),
        )
        expect(answer.status).toBe(403)
        expect(answer.body).toMatchObject({ error: 'cross_site' })
        expect(answer.headers).not.toHaveProperty('access-control-allow-origin')
      }
      expect((await api.post('/v1/peek', u1)).body).toMatchObject({ remaining: 2 })
    },
  )

  test('opened from the address bar is served', async () => {
    const api = await startApi()
    const headers = { 'sec-fetch-site': 'none' }
    expect((await api.send('/healthz', { headers })).status).toBe(200)
  })
})

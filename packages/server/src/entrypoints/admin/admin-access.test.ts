/** Tests access to the admin API: security 30 to 36 and B56 of the list of faults. */
import { describe, expect, test } from 'vitest'
import type { Role } from '../../rules/store/records.js'
import { closeAfterTests, ROOT_TOKEN, startAdmin, requestApp } from './admin.test-helper.js'

closeAfterTests()

interface Problem {
  readonly error: string
  readonly detail: string
}

/** Fills the parameters of a path with a value. */
const filled = (path: string) => path.replaceAll(/\{\w+\}/g, 'x').replace('/admin/v1', '')

/** The one route that a client without credentials may call. */
const isLogin = (method: string, path: string) => method === 'POST' && path === '/admin/v1/session'

describe('authentication of the admin API', () => {
  test('reports at the login only that the token is wrong', async () => {
    const admin = await startAdmin()
    const login = (body: object) => admin.request('POST', '/session', body, { token: null })
    const wrong = await login({ token: 'wrong' })
    const { text } = await admin.request('GET', '/rules', undefined, { token: null })
    expect([wrong.status, wrong.text]).toEqual([401, text])
    expect(wrong.headers.has('set-cookie')).toBe(false)
    expect((await login({})).status).toBe(400)
    expect((await login({ token: 'x'.repeat(9000) })).status).toBe(413)
  })

  test('answers 401 on every route of the router but the login (security 31)', async () => {
    const admin = await startAdmin()
    const routes = admin.routes()
    expect(routes.length).toBeGreaterThan(40)
    for (const { method, path } of routes) {
      if (isLogin(method, path)) continue
      const { status, body } = await admin.request(method, filled(path), undefined, { token: null })
      expect({ method, path, status, error: (body as Problem).error }).toEqual({
        method,
        path,
        status: 401,
        error: 'unauthorized',
      })
      admin.advance(3000)
    }
  })

  test('answers unknown paths and methods with the same 401', async () => {
    const admin = await startAdmin()
    const { text } = await admin.request('GET', '/rules', undefined, { token: null })
    const responses = [
      ['GET', '/nothing'],
      ['GET', '/../..'],
      ['OPTIONS', '/rules'],
      ['TRACE2', '/rules'],
      ['DELETE', '/rules'],
    ] as const
    for (const [method, path] of responses) {
      const answer = await admin.request(method, path, undefined, { token: null })
      expect([method, path, answer.status, answer.text]).toEqual([method, path, 401, text])
    }
    const root = await requestApp(admin.app, '/')
    expect([root.status, await root.text()]).toEqual([401, text])
  })

  test('B56: answers a missing or wrong token, a megabyte or another scheme in the same way', async () => {
    const admin = await startAdmin()
    const sent: readonly (string | undefined)[] = [
      undefined,
      'Bearer wrong-token-0123456789abcdef',
      'Bearer x',
      `Bearer ${'x'.repeat(1024 * 1024)}`,
      `Basic ${ROOT_TOKEN}`,
      `${ROOT_TOKEN}`,
      `Bearer${ROOT_TOKEN}`,
      `Bearer ${ROOT_TOKEN} `.repeat(2),
    ]
    const answers = new Set<string>()
    for (const authorization of sent) {
      const headers = authorization === undefined ? {} : { authorization }
      const answer = await admin.request('GET', '/rules', undefined, { token: null, headers })
      answers.add(JSON.stringify([answer.status, answer.text, [...answer.headers]]))
    }
    expect(answers.size).toBe(1)
    expect([...answers][0]).toContain('401')
  })

  test('accepts the scheme in any case', async () => {
    const admin = await startAdmin()
    const headers = { authorization: `bEARER ${ROOT_TOKEN}` }
    const { status } = await admin.request('GET', '/rules', undefined, { token: null, headers })
    expect(status).toBe(200)
  })

  test('refuses a token in a cookie (security 34)', async () => {
    const admin = await startAdmin()
    const headers = { cookie: `token=${ROOT_TOKEN}; authorization=Bearer ${ROOT_TOKEN}` }
    const answer = await admin.request('GET', '/rules', undefined, { token: null, headers })
    expect(answer.status).toBe(401)
    expect(answer.headers.has('set-cookie')).toBe(false)
  })

  test('refuses a request before it reads the body', async () => {
    const admin = await startAdmin()
    const answer = await admin.request('POST', '/rules', undefined, { token: null, text: '{{{' })
    expect(answer.status).toBe(401)
  })
})

describe('roles (security 33)', () => {
  const NEEDED: Readonly<Record<string, Role>> = {
    'POST /admin/v1/validate': 'read',
    'POST /admin/v1/validate/rule': 'read',
    'POST /admin/v1/peek': 'read',
    'POST /admin/v1/inspect': 'read',
    'POST /admin/v1/simulate': 'read',
    'POST /admin/v1/session': 'read',
    'DELETE /admin/v1/session': 'read',
    'GET /admin/v1/tokens': 'admin',
    'POST /admin/v1/tokens': 'admin',
    'DELETE /admin/v1/tokens/{id}': 'admin',
    'POST /admin/v1/adopt': 'admin',
  }
  const neededOf = (method: string, path: string): Role =>
    NEEDED[`${method} ${path}`] ?? (method === 'GET' ? 'read' : 'edit')

  const RANKS = ['read', 'edit', 'admin'] as const

  test.each(RANKS)('%s may do what its role allows, on every route', async (role) => {
    const admin = await startAdmin()
    const token = await admin.tokenOf(role)
    for (const { method, path } of admin.routes()) {
      const needed = neededOf(method, path)
      // An unsupported content type: an allowed request is refused one step later.
      const headers = { 'content-type': 'text/plain' }
      const sent = method === 'GET' ? { token } : { token, headers, text: 'x' }
      const { status, body } = await admin.request(method, filled(path), undefined, sent)
      const isForbidden = status === 403 && (body as Problem).error === 'forbidden'
      expect([method, path, isForbidden]).toEqual([
        method,
        path,
        RANKS.indexOf(role) < RANKS.indexOf(needed),
      ])
      if (isForbidden) expect((body as Problem).detail).toContain(`needs the role ${needed}`)
    }
  })

  test('a token that expired or was revoked is refused from that moment on', async () => {
    const admin = await startAdmin()
    const expiresAt = '2026-01-01T01:00:00Z'
    const made = await admin.request('POST', '/tokens', { name: 'ci', role: 'read', expiresAt })
    const { token } = made.body as { readonly token: string }
    const responses = async () =>
      (await admin.request('GET', '/rules', undefined, { token })).status
    expect(await responses()).toBe(200)
    admin.advance(3_600_000)
    expect(await responses()).toBe(401)
    const other = await admin.request('POST', '/tokens', { name: 'ci', role: 'read' })
    const { id, token: second } = other.body as { readonly id: string; readonly token: string }
    const askedAgain = async () =>
      (await admin.request('GET', '/rules', undefined, { token: second })).status
    expect(await askedAgain()).toBe(200)
    expect((await admin.request('DELETE', `/tokens/${id}`)).status).toBe(200)
    expect(await askedAgain()).toBe(401)
  })

  test('tokens have at least 128 bits and are shown once (security 30, 32)', async () => {
    const admin = await startAdmin()
    const made = await admin.request('POST', '/tokens', { name: 'ci', role: 'edit' })
    const { token } = made.body as { readonly token: string }
    expect(token.length).toBeGreaterThanOrEqual(22)
    const listed = await admin.request('GET', '/tokens')
    expect(listed.text).not.toContain(token)
    expect(listed.text).not.toContain('hash')
    const past = await admin.request('GET', '/versions')
    expect(past.text).not.toContain(token)
    expect(past.text).not.toContain('hash')
    expect(past.text).not.toContain('"secret":"')
  })
})

describe('requests of web pages (security 34)', () => {
  test.each([
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
  ])('from another site with %j are refused, whatever their token', async (headers) => {
    const admin = await startAdmin()
    const answer = await admin.request(
      'POST',
      '/rules',
      { id: 'a', limits: ['1/day'] },
      { headers },
    )
    expect(answer.status).toBe(403)
    expect(answer.body).toMatchObject({ error: 'cross_site' })
    expect(admin.deps.ruleFollower.catalog.rule('a')).toBeUndefined()
  })

  test('of the same origin are served', async () => {
    const admin = await startAdmin()
    const headers = { origin: 'http://localhost', 'sec-fetch-site': 'same-origin' }
    expect((await admin.request('GET', '/rules', undefined, { headers })).status).toBe(200)
  })

  test('change nothing by GET', async () => {
    const admin = await startAdmin()
    const version = () => admin.deps.ruleFollower.catalog.position?.version
    const before = version()
    for (const { method, path } of admin.routes()) {
      if (method === 'GET') await admin.request('GET', filled(path))
    }
    expect(version()).toBe(before)
  })
})

describe('the rate limits of the admin API (security 36)', () => {
  const wrong = { token: 'wrong' }

  test('make an address wait after 20 wrong tokens', async () => {
    const admin = await startAdmin()
    for (let i = 0; i < 20; i++) {
      expect((await admin.request('GET', '/rules', undefined, wrong)).status).toBe(401)
    }
    const refused = await admin.request('GET', '/rules', undefined, wrong)
    expect(refused.status).toBe(429)
    expect(refused.body).toMatchObject({ error: 'rate_limited', status: 429 })
    expect(refused.headers.get('retry-after')).toBe('3')
    admin.advance(3000)
    expect((await admin.request('GET', '/rules', undefined, wrong)).status).toBe(401)
  })

  test('log wrong tokens once a second, with their number', async () => {
    const admin = await startAdmin()
    for (let i = 0; i < 5; i++) await admin.request('GET', '/rules', undefined, wrong)
    admin.advance(1000)
    await admin.request('GET', '/rules', undefined, wrong)
    const logged = admin.memoryLog.lines.filter(
      ({ msg }) => msg === 'admin request rejected: invalid token',
    )
    expect(logged).toMatchObject([
      { level: 'warn', suppressed: 0 },
      { level: 'warn', suppressed: 4 },
    ])
    expect(JSON.stringify(logged)).not.toContain(wrong.token)
  })

  test('do not lock out a right token because of wrong ones from the same address', async () => {
    const admin = await startAdmin()
    for (let i = 0; i < 50; i++) await admin.request('GET', '/rules', undefined, wrong)
    expect((await admin.request('GET', '/rules')).status).toBe(200)
    const token = await admin.tokenOf('read')
    expect((await admin.request('GET', '/rules', undefined, { token })).status).toBe(200)
    expect((await admin.request('GET', '/rules', undefined, wrong)).status).toBe(429)
  })

  test('allow no more wrong tokens that are sent concurrently than sequentially', async () => {
    const admin = await startAdmin()
    const responses = Array.from({ length: 50 }, () =>
      admin.request('GET', '/rules', undefined, wrong),
    )
    const statuses = (await Promise.all(responses)).map(({ status }) => status)
    expect(statuses.filter((status) => status === 401)).toHaveLength(20)
    expect(statuses.filter((status) => status === 429)).toHaveLength(30)
  })

  test('do not count right tokens as wrong ones', async () => {
    const admin = await startAdmin()
    for (let i = 0; i < 100; i++) {
      expect((await admin.request('GET', '/rules')).status).toBe(200)
    }
  })

  test('allow a token a number of calls, and responses show how many are left', async () => {
    const admin = await startAdmin()
    const first = await admin.request('GET', '/rules')
    expect(first.headers.get('ratelimit')).toBe('"admin-calls";r=999;t=1')
    for (let i = 1; i < 1000; i++) await admin.request('GET', '/nothing')
    const refused = await admin.request('GET', '/rules')
    expect(refused.status).toBe(429)
    expect(refused.headers.get('retry-after')).toBe('1')
    const token = await admin.tokenOf('read')
    expect((await admin.request('GET', '/rules', undefined, { token })).status).toBe(200)
  })

  test('allow fewer writes', async () => {
    const admin = await startAdmin()
    const { headers } = await admin.request('POST', '/rules', { id: 'a', limits: ['1/day'] })
    expect(headers.get('ratelimit-policy')).toContain('"admin-writes";q=500;w=1')
  })
})

describe('every response', () => {
  test('has its content type, and must not be cached', async () => {
    const admin = await startAdmin()
    const answers = [
      await admin.request('GET', '/rules'),
      await admin.request('GET', '/nothing'),
      await admin.request('GET', '/rules', undefined, { token: null }),
      await admin.request('POST', '/rules', { id: 'B' }),
    ]
    for (const { headers } of answers) {
      expect(headers.get('cache-control')).toBe('no-store')
      expect(headers.get('x-content-type-options')).toBe('nosniff')
    }
  })

  test('is 404 for an unknown path, and 405 with the allowed methods for another method', async () => {
    const admin = await startAdmin()
    const nowhere = await admin.request('GET', '/nothing')
    expect([nowhere.status, nowhere.body]).toMatchObject([404, { error: 'not_found' }])
    const other = await admin.request('DELETE', '/rules')
    expect([other.status, other.body]).toMatchObject([405, { error: 'method_not_allowed' }])
    expect(other.headers.get('allow')).toBe('GET, HEAD, POST, PUT')
    expect((await admin.request('HEAD', '/rules')).text).toBe('')
  })

  test('is without details for an internal error, which is logged', async () => {
    const fault = new Error('a secret detail')
    const admin = await startAdmin({
      deps: (parts) => ({
        ...parts,
        editor: { ...parts.editor, create: () => Promise.reject(fault) },
      }),
    })
    const answer = await admin.request('POST', '/rules', {})
    expect(answer.status).toBe(500)
    expect(answer.body).toMatchObject({ error: 'internal' })
    expect(answer.text).not.toContain('a secret detail')
    expect(JSON.stringify(admin.memoryLog.lines)).toContain('a secret detail')
  })
})

/** Tests browser sessions: security 34 and 36 of the list of faults. */
import { describe, expect, test } from 'vitest'
import {
  closeAfterTests,
  ROOT_TOKEN,
  startAdmin,
  type TestAdmin,
  requestApp,
} from './admin.test-helper.js'

closeAfterTests()

interface SessionBody {
  readonly name: string
  readonly role: string
  readonly expiresAt: string
  readonly csrf: string
}

const RULE = { id: 'a', limits: ['1/day'] }

async function login(admin: TestAdmin, token = ROOT_TOKEN) {
  const answer = await admin.request('POST', '/session', { token }, { token: null })
  const cookie = answer.headers.get('set-cookie')?.split(';')[0] ?? ''
  const { csrf } = answer.body as SessionBody
  const as = (headers: Readonly<Record<string, string>> = {}) => ({
    token: null,
    headers: { cookie, ...headers },
  })
  return { answer, cookie, csrf, as, full: as({ 'x-sluice-csrf': csrf }) }
}

describe('a login', () => {
  test('returns the principal, and a cookie that is not the token', async () => {
    const admin = await startAdmin()
    const { answer, csrf } = await login(admin)
    expect(answer.status).toBe(200)
    expect(answer.body).toEqual({
      name: 'admin',
      role: 'admin',
      expiresAt: new Date(admin.deps.clock.now() + 12 * 3_600_000).toISOString(),
      csrf,
    })
    const cookie = answer.headers.get('set-cookie') ?? ''
    expect(cookie).toMatch(
      /^sluice_session=[\w.-]+; Path=\/admin; Max-Age=43200; HttpOnly; SameSite=Strict$/,
    )
    expect(cookie).not.toContain(ROOT_TOKEN)
    expect(answer.headers.get('cache-control')).toBe('no-store')
  })

  test('is logged, without the token', async () => {
    const admin = await startAdmin()
    await login(admin)
    await login(admin, await admin.tokenOf('read'))
    await login(admin, 'a-wrong-one')
    const lines = admin.memoryLog.lines.filter(({ msg }) => /session|login/.test(String(msg)))
    expect(lines).toMatchObject([
      { level: 'info', msg: 'admin session started', holder: 'admin', address: '0.0.0.0' },
      { level: 'info', msg: 'admin session started', holder: 'a read' },
      { level: 'warn', msg: 'admin login rejected: invalid token', address: '0.0.0.0' },
    ])
    expect(JSON.stringify(lines)).not.toContain(ROOT_TOKEN)
    expect(JSON.stringify(lines)).not.toContain('a-wrong-one')
  })

  test('shares its limit of wrong tokens with every other call', async () => {
    const admin = await startAdmin()
    for (let i = 0; i < 10; i++) expect((await login(admin, 'wrong')).answer.status).toBe(401)
    for (let i = 0; i < 10; i++) await admin.request('GET', '/rules', undefined, { token: 'wrong' })
    const refused = (await login(admin, 'wrong')).answer
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '3'])
    expect((await login(admin)).answer.status).toBe(200)
  })

  test('is not counted as a wrong token if a client only requests its session and has none', async () => {
    const admin = await startAdmin()
    const whose = () => admin.request('GET', '/session', undefined, { token: null })
    for (let i = 0; i < 30; i++) expect((await whose()).status).toBe(401)
    expect((await login(admin, 'wrong')).answer.status).toBe(401)
    for (let i = 0; i < 20; i++) await login(admin, 'wrong')
    // A client that guesses tokens behind the same proxy does not lock out others.
    expect((await whose()).status).toBe(401)
    expect((await login(admin)).answer.status).toBe(200)
  })

  test.each([
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
  ])('from a page of another site is refused: %j', async (headers) => {
    const admin = await startAdmin()
    const body = { token: ROOT_TOKEN }
    const answer = await admin.request('POST', '/session', body, { token: null, headers })
    expect([answer.status, answer.body]).toMatchObject([403, { error: 'cross_site' }])
    expect(answer.headers.has('set-cookie')).toBe(false)
  })

  const at = (admin: TestAdmin, url: string, headers: Readonly<Record<string, string>>) =>
    requestApp(admin.app, `${url}/admin/v1/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ token: ROOT_TOKEN }),
    })

  test('in clear text to another machine is refused, and the response says what to do', async () => {
    const admin = await startAdmin()
    for (const headers of [{}, { origin: 'http://sluice.example:9090' }]) {
      const answer = await at(admin, 'http://sluice.example:9090', headers)
      expect(answer.status).toBe(403)
      expect(answer.headers.has('set-cookie')).toBe(false)
      expect(await answer.json()).toMatchObject({
        error: 'not_encrypted',
        detail: expect.stringContaining('Use https://'),
      })
    }
  })

  test('behind a proxy that terminates TLS gets a cookie for TLS only', async () => {
    const admin = await startAdmin()
    const origin = { origin: 'https://sluice.example' }
    const answer = await at(admin, 'http://sluice.example', origin)
    expect(answer.status).toBe(200)
    expect(answer.headers.get('set-cookie')).toMatch(/; Secure$/)
  })

  test.each(['localhost:9090', '127.0.0.1:9090', '[::1]:9090', 'sluice.localhost'])(
    'at %s needs no TLS',
    async (host) => {
      const admin = await startAdmin()
      const answer = await at(admin, `http://${host}`, { origin: `http://${host}` })
      expect(answer.status).toBe(200)
      expect(answer.headers.get('set-cookie')).not.toContain('Secure')
    },
  )
})

describe('a session', () => {
  test('reads with its cookie alone, and returns its principal', async () => {
    const admin = await startAdmin()
    const { as, answer } = await login(admin)
    expect((await admin.request('GET', '/rules', undefined, as())).status).toBe(200)
    const who = await admin.request('GET', '/session', undefined, as())
    expect([who.status, who.body]).toEqual([200, answer.body])
  })

  test('changes something only with its X-Sluice-Csrf', async () => {
    const admin = await startAdmin()
    const { as, full, csrf } = await login(admin)
    const other = await login(admin)
    for (const headers of [
      {},
      { 'x-sluice-csrf': '' },
      { 'x-sluice-csrf': `${csrf}x` },
      { 'x-sluice-csrf': other.csrf },
    ]) {
      const answer = await admin.request('POST', '/rules', RULE, as(headers))
      expect([answer.status, answer.body]).toMatchObject([403, { error: 'csrf' }])
    }
    expect(admin.deps.ruleFollower.catalog.rule('a')).toBeUndefined()
    expect((await admin.request('POST', '/rules', RULE, full)).status).toBe(201)
  })

  test('needs that header on every route but GET, also on unknown ones', async () => {
    const admin = await startAdmin()
    const { as } = await login(admin)
    const routes = [...admin.routes(), { method: 'POST', path: '/admin/v1/nothing' }]
    for (const { method, path } of routes) {
      if (method === 'GET' || `${method} ${path}` === 'POST /admin/v1/session') continue
      const target = path.replaceAll(/\{\w+\}/g, 'x').replace('/admin/v1', '')
      const { status, body } = await admin.request(method, target, undefined, as())
      expect([method, path, status, body]).toMatchObject([method, path, 403, { error: 'csrf' }])
    }
  })

  test('has the role of its token', async () => {
    const admin = await startAdmin()
    const { full } = await login(admin, await admin.tokenOf('read'))
    const answer = await admin.request('POST', '/rules', RULE, full)
    expect([answer.status, answer.body]).toMatchObject([403, { error: 'forbidden' }])
  })

  test('ends when its token is revoked, and when it expires', async () => {
    const admin = await startAdmin()
    const made = await admin.request('POST', '/tokens', { name: 'ann', role: 'edit' })
    const { id, token } = made.body as { readonly id: string; readonly token: string }
    const own = await login(admin, token)
    const root = await login(admin)
    const status = async (as: typeof own.full) =>
      (await admin.request('GET', '/rules', undefined, as)).status
    expect([await status(own.full), await status(root.full)]).toEqual([200, 200])
    await admin.request('DELETE', `/tokens/${id}`)
    expect([await status(own.full), await status(root.full)]).toEqual([401, 200])
    admin.advance(12 * 3_600_000)
    expect(await status(root.full)).toBe(401)
  })

  test('is ignored if there is an Authorization header, valid or not', async () => {
    const admin = await startAdmin()
    const { cookie } = await login(admin)
    const headers = { cookie }
    const bad = await admin.request('GET', '/rules', undefined, { token: 'wrong', headers })
    expect(bad.status).toBe(401)
    const good = await admin.request('POST', '/rules', RULE, { headers })
    expect(good.status).toBe(201)
    const who = await admin.request('GET', '/session', undefined, { headers })
    expect([who.status, who.body]).toMatchObject([404, { error: 'not_found' }])
  })

  test('from a page of another site is refused, even with its cookie', async () => {
    const admin = await startAdmin()
    const { csrf, as } = await login(admin)
    const headers = as({ 'x-sluice-csrf': csrf, origin: 'https://evil.example' })
    expect((await admin.request('POST', '/rules', RULE, headers)).body).toMatchObject({
      error: 'cross_site',
    })
  })

  test('is removed from the browser by a logout', async () => {
    const admin = await startAdmin()
    const { full, as } = await login(admin)
    expect((await admin.request('DELETE', '/session', undefined, as())).status).toBe(403)
    const answer = await admin.request('DELETE', '/session', undefined, full)
    expect([answer.status, answer.body]).toEqual([200, { ended: true }])
    expect(answer.headers.get('set-cookie')).toMatch(/^sluice_session=; Path=\/admin; Max-Age=0;/)
  })

  test('that does not exist can be requested without a log line', async () => {
    const admin = await startAdmin()
    expect((await admin.request('GET', '/session', undefined, { token: null })).status).toBe(401)
    const logged = () =>
      admin.memoryLog.lines.filter(({ msg }) => /admin request rejected/.test(String(msg)))
    expect(logged()).toEqual([])
    const headers = { cookie: 'sluice_session=stale' }
    await admin.request('GET', '/session', undefined, { token: null, headers })
    expect(logged()).toHaveLength(1)
  })

  test('works on a socket, with the cookie of the connection', async () => {
    const admin = await startAdmin()
    const { url } = await admin.listen()
    const begun = await fetch(`${url}/admin/v1/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token: ROOT_TOKEN }),
    })
    const cookie = begun.headers.get('set-cookie')?.split(';')[0] ?? ''
    const rules = await fetch(`${url}/admin/v1/rules`, { headers: { cookie } })
    expect([begun.status, rules.status]).toEqual([200, 200])
  })
})

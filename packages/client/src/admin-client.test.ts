import { describe, expect, test } from 'vitest'
import { type AdminClient, callerId, createAdminClient } from './index.js'
import { closeAfterTests, startServer } from './stub-server.test-helper.js'

closeAfterTests()

const why = 'a reason'
const rule = { id: 'per-user', by: ['user'], limits: ['10/second'] }
const override = { caller: { user: 'u1' }, limits: ['50/second'] }

/** The request of each method: one line for each route of the admin API. */
const ROUTES: readonly (readonly [string, (client: AdminClient) => Promise<unknown>])[] = [
  ['GET /rules', (c) => c.listRules()],
  ['GET /rules?after=a&limit=5', (c) => c.listRules({ after: 'a', limit: 5 })],
  ['POST /rules?why=a+reason', (c) => c.createRule(rule, { why })],
  ['GET /rules/per-user', (c) => c.getRule('per-user')],
  ['PUT /rules/per-user if "7"', (c) => c.replaceRule('per-user', rule, { ifMatch: 7 })],
  ['PUT /rules/per-user if *', (c) => c.replaceRule('per-user', rule, { ifMatch: '*' })],
  ['PATCH /rules/per-user', (c) => c.patchRule('per-user', { mode: 'shadow' })],
  ['DELETE /rules/per-user', (c) => c.deleteRule('per-user')],
  [
    'DELETE /rules/per-user?confirm=last-rule if "7"',
    (c) => c.deleteRule('per-user', { confirmLastRule: true, ifMatch: 7 }),
  ],
  ['PUT /rules', (c) => c.applyRules('rules: []')],
  [
    'PUT /rules?file=a+b.yaml&shadow=true&dryRun=true&strict=true&confirm=no-rules&why=a+reason if "3"',
    (c) =>
      c.applyRules('rules: []', {
        file: 'a b.yaml',
        shadow: true,
        dryRun: true,
        strict: true,
        confirmNoRules: true,
        why,
        ifMatch: 3,
      }),
  ],
  ['POST /validate?strict=true', (c) => c.validateRules([rule], { strict: true, shadow: false })],
  ['POST /validate/rule?id=r', (c) => c.validateRule('limits: [1/day]', 'r')],
  ['GET /export', (c) => c.exportRules()],
  ['POST /rules/per-user/promote', (c) => c.promoteRule('per-user')],
  ['GET /versions?before=9&limit=2', (c) => c.listVersions({ before: 9, limit: 2 })],
  ['GET /rules/per-user/versions', (c) => c.listRuleVersions('per-user')],
  ['POST /rollback if "9"', (c) => c.rollback(4, { ifMatch: 9 })],
  ['POST /rules/per-user/rollback', (c) => c.rollbackRule('per-user', 4)],
  ['POST /adopt', (c) => c.adopt()],
  ['GET /rules/per-user/overrides', (c) => c.listOverrides('per-user')],
  ['POST /rules/per-user/overrides', (c) => c.addOverride('per-user', override)],
  ['POST /rules/per-user/overrides', (c) => c.addOverrides('per-user', [override])],
  ['GET /rules/per-user/overrides/user%3Du1', (c) => c.getOverride('per-user', 'user=u1')],
  [
    'PUT /rules/per-user/overrides/user%3Da%252Fb',
    (c) => c.putOverride('per-user', callerId(['user'], { user: 'a/b' }), { limits: [] }),
  ],
  ['DELETE /rules/per-user/overrides/everybody', (c) => c.deleteOverride('per-user', 'everybody')],
  ['GET /rules/per-user/candidate', (c) => c.getCandidate('per-user')],
  ['PUT /rules/per-user/candidate', (c) => c.putCandidate('per-user', { limits: ['5/second'] })],
  ['DELETE /rules/per-user/candidate', (c) => c.deleteCandidate('per-user')],
  ['GET /keys?user=u1', (c) => c.listKeys({ user: 'u1' })],
  ['POST /keys', (c) => c.addKey({ user: 'u1' })],
  ['POST /keys', (c) => c.addKeys([{ user: 'u1' }])],
  ['GET /keys/k1', (c) => c.getKey('k1')],
  ['PATCH /keys/k1 if "2"', (c) => c.patchKey('k1', { plan: null }, { ifMatch: 2 })],
  ['DELETE /keys/k1', (c) => c.deleteKey('k1')],
  ['GET /nodes', (c) => c.listNodes()],
  ['GET /tokens', (c) => c.listTokens()],
  ['POST /tokens', (c) => c.addToken({ name: 'ci', role: 'edit' })],
  ['DELETE /tokens/t1', (c) => c.deleteToken('t1')],
  ['POST /check', (c) => c.check({ attributes: { user: 'u1' }, cost: 2 })],
  ['POST /peek', (c) => c.peek({ attributes: { user: 'u1' } })],
  ['POST /inspect', (c) => c.inspect('per-user', { user: 'u1' })],
  ['GET /stats', (c) => c.stats()],
  ['GET /stats?rule=a', (c) => c.stats({ rule: 'a' })],
  ['GET /top', (c) => c.top()],
  ['GET /top?by=zero&rule=a&limit=5', (c) => c.top({ by: 'zero', rule: 'a', limit: 5 })],
  ['GET /alerts', (c) => c.alerts()],
  ['POST /simulate', (c) => c.simulate({ limits: ['1/second'], calls: [{ atMs: 0 }] })],
  ['GET /session', (c) => c.session()],
  ['POST /session', (c) => c.login('t1')],
  ['DELETE /session', (c) => c.logout()],
]

describe('a method of the client', () => {
  test.each(ROUTES)('sends %s, with the token', async (line, call) => {
    const server = await startServer({ status: 500 })
    await expect(call(createAdminClient({ url: `${server.url}/`, token: 't0' }))).rejects.toThrow()
    const [seen] = server.requests
    expect(server.requests).toHaveLength(1)
    const match = seen?.headers['if-match']
    expect(`${seen?.method} ${seen?.url}${match === undefined ? '' : ` if ${String(match)}`}`).toBe(
      line.replace(' /', ' /admin/v1/'),
    )
    expect(seen?.headers['authorization']).toBe('Bearer t0')
  })

  test.each(ROUTES)(
    'refuses the echo of another server as the response to %s',
    async (_line, call) => {
      const server = await startServer({ body: { from: 'an upstream', method: 'GET' } })
      await expect(call(createAdminClient({ url: server.url }))).rejects.toMatchObject({
        code: 'unexpected',
        message: expect.stringContaining('Is this the admin listener of Sluice?'),
      })
    },
  )

  test('sends objects as JSON, and text unchanged', async () => {
    const server = await startServer({ body: { version: 4, diff: {} } })
    const client = createAdminClient({ url: server.url })
    await client.applyRules([rule])
    await client.applyRules('- id: a\n')
    await client.rollback(4)
    expect(server.requests.map(({ headers, body }) => [headers['content-type'], body])).toEqual([
      ['application/json', JSON.stringify([rule])],
      ['application/yaml', '- id: a\n'],
      ['application/json', '{"version":4}'],
    ])
    expect(server.requests[0]?.headers['authorization']).toBeUndefined()
  })

  test('sends the CSRF header of a session with changes, and no token', async () => {
    const server = await startServer({ body: { version: 4, rules: [], trials: [] } })
    const session: { csrf?: string } = {}
    const client = createAdminClient({ url: server.url, csrf: () => session.csrf })
    await client.adopt()
    session.csrf = 'c0'
    await client.listRules()
    await client.adopt()
    await client.simulate({ limits: [], calls: [] })
    const sent = server.requests.map(({ headers }) => headers['x-sluice-csrf'])
    expect(sent).toEqual([undefined, undefined, 'c0', 'c0'])
    expect(server.requests.some(({ headers }) => 'authorization' in headers)).toBe(false)
  })

  test('returns what the server sent, text as text', async () => {
    const page = { version: 3, routes: [], strictPaths: false, rules: [], next: null }
    const server = await startServer(
      { body: page },
      { body: 'rules: []\n', headers: { 'content-type': 'application/yaml' } },
      { body: { version: 4 } },
    )
    const client = createAdminClient({ url: server.url })
    expect(await client.listRules()).toEqual(page)
    expect(await client.exportRules()).toBe('rules: []\n')
    expect(await client.deleteRule('a')).toEqual({ version: 4 })
  })

  test.each(['', '.', '..', '\ud800'])('refuses the id %j, and sends nothing', async (id) => {
    const server = await startServer({})
    const client = createAdminClient({ url: server.url })
    await expect(async () => client.getRule(id)).rejects.toThrow('rule: found')
    expect(server.requests).toEqual([])
  })
})

describe('the address of the client', () => {
  test.each([
    ['127.0.0.1:9090', 'accepted: http:// or https:// and a host'],
    ['ftp://127.0.0.1', 'accepted: http:// or https:// and a host'],
    ['', 'accepted: http:// or https:// and a host'],
    ['http://user:pw@127.0.0.1', 'found a user or password'],
    ['http://127.0.0.1/?a=1', 'without query and fragment'],
    ['http://sluice.example', 'anybody on the way could read the token'],
    ['http://127.0.0.1.example', 'anybody on the way could read the token'],
    ['http://notlocalhost', 'anybody on the way could read the token'],
  ])('%s is refused', (url, message) => {
    expect(() => createAdminClient({ url, token: 't0' })).toThrow(message)
  })

  test.each([
    'http://127.0.0.1:9090',
    'http://127.8.9.10',
    'http://[::1]:9090',
    'http://localhost:9090',
    'http://sluice.localhost',
    'https://sluice.example',
    'https://sluice.example/behind/a/prefix/',
  ])('%s may be sent the token', (url) => {
    expect(() => createAdminClient({ url, token: 't0' })).not.toThrow()
  })

  test('a token is sent in clear text to another machine only if the options allow it', () => {
    const url = 'http://sluice.example'
    expect(() => createAdminClient({ url })).not.toThrow()
    expect(() => createAdminClient({ url, token: 't0', insecure: true })).not.toThrow()
  })

  test('a token that no header can carry is refused, and the error does not show it', () => {
    const create = () => createAdminClient({ url: 'http://127.0.0.1', token: 'se\ncret' })
    expect(create).toThrow('token: found 7 characters')
    expect(create).not.toThrow('cret')
  })
})

test('a caller id has the attributes in the order of the rule, each value encoded', () => {
  expect(callerId(['user', 'route'], { route: 'GET /a', user: 'a,b=c' })).toBe(
    'user=a%2Cb%3Dc,route=GET%20%2Fa',
  )
  expect(callerId([], {})).toBe('everybody')
})

/** Keys, tokens, nodes and calls over HTTP. */
import { describe, expect, test } from 'vitest'
import { UnavailableError } from '../../rules/store/rule-store.js'
import { closeAfterTests, startAdmin, withStore } from './admin.test-helper.js'

closeAfterTests()

interface KeyMade {
  readonly id: string
  readonly key: string
  readonly version: number
}

describe('API keys', () => {
  test('are created, shown once, read, changed and deleted', async () => {
    const admin = await startAdmin()
    const made = await admin.request('POST', '/keys', { user: 'u1', plan: 'pro', name: 'laptop' })
    const { id, key } = made.body as KeyMade
    expect(made.status).toBe(201)
    expect(made.headers.get('location')).toBe(`/admin/v1/keys/${id}`)
    expect(key.length).toBeGreaterThanOrEqual(22)
    const read = await admin.request('GET', `/keys/${id}`)
    expect(read.body).toMatchObject({ id, user: 'u1', plan: 'pro', state: 'active' })
    expect(read.text).not.toContain(key)
    expect(read.text).not.toContain('hash')
    const changed = await admin.request('PATCH', `/keys/${id}`, { state: 'disabled', plan: null })
    expect(changed).toMatchObject({ status: 200, body: { state: 'disabled', user: 'u1' } })
    expect(changed.body).not.toHaveProperty('plan')
    const stale = { headers: { 'if-match': '"1"' } }
    expect((await admin.request('PATCH', `/keys/${id}`, { plan: 'x' }, stale)).status).toBe(409)
    expect((await admin.request('DELETE', `/keys/${id}`)).status).toBe(200)
    const gone = await admin.request('GET', `/keys/${id}`)
    expect(gone).toMatchObject({ status: 404, body: { error: 'key_unknown' } })
  })

  test('are registered as a list and read in pages, of all users or of one', async () => {
    const admin = await startAdmin()
    const list = Array.from({ length: 15 }, (_, i) => ({
      key: `key-number-${i}-0123456789`,
      user: i % 3 === 0 ? 'u0' : 'u1',
    }))
    const made = await admin.request('POST', '/keys', list)
    expect(made.status).toBe(201)
    expect((made.body as { readonly keys: readonly object[] }).keys).toHaveLength(15)
    expect(made.text).not.toContain('key-number-3-')
    const seen = new Set<string>()
    let after = ''
    for (;;) {
      const { body } = await admin.request('GET', `/keys?limit=4${after}`)
      const { keys, next } = body as { keys: readonly KeyMade[]; next: string | null }
      for (const { id } of keys) seen.add(id)
      if (next === null) break
      after = `&after=${next}`
    }
    expect(seen.size).toBe(15)
    const ofUser = await admin.request('GET', '/keys?user=u0')
    expect((ofUser.body as { readonly keys: readonly object[] }).keys).toHaveLength(5)
    const again = await admin.request('POST', '/keys', list[0])
    expect(again).toMatchObject({ status: 409, body: { error: 'key_exists' } })
  })

  test.each([
    [{ usr: 'u1' }, 'body: found unknown key "usr", did you mean "user"?; accepted: key, sha256,'],
    [{ user: 5 }, 'body.user: found 5; accepted: text of 1 to 1024 characters'],
    [{ state: 'gone' }, 'body.state: found "gone"; accepted: active or disabled'],
    [{ sha256: 'abc' }, 'body.sha256: found "abc"; accepted: 64 hex digits'],
    [[{ user: 'a' }, { user: '' }], 'body[1].user: found ""; accepted: text'],
    [[], 'body: found a list; accepted: a key such as'],
    ['u1', 'body: found "u1"; accepted: key, sha256'],
    [null, 'body: found null; accepted: key, sha256'],
  ])('are refused for %j, and the message says why', async (body, detail) => {
    const admin = await startAdmin()
    const answer = await admin.request('POST', '/keys', body)
    expect(answer.status).toBe(400)
    expect((answer.body as { readonly detail: string }).detail).toContain(detail)
  })

  test('named __proto__ are unknown', async () => {
    const admin = await startAdmin()
    const headers = { 'content-type': 'application/json' }
    const text = '{"user":"u1","__proto__":{"state":"disabled"}}'
    expect((await admin.request('POST', '/keys', undefined, { text, headers })).status).toBe(400)
  })
})

describe('tokens', () => {
  test('are named as the author of a change', async () => {
    const admin = await startAdmin()
    const token = await admin.tokenOf('edit')
    await admin.request('PATCH', '/rules/per-user?why=slower', { mode: 'shadow' }, { token })
    const { body } = await admin.request('GET', '/versions?limit=1')
    expect(body).toMatchObject({ versions: [{ by: 'a edit', why: 'slower' }] })
  })

  test.each([
    [{ role: 'read' }, 'body.name: found nothing'],
    [{ name: 'x', role: 'root' }, 'body.role: found "root"; accepted: read, edit or admin'],
    [{ name: 'x', role: 'read', expiresAt: 5 }, 'body.expiresAt: found 5; accepted: a date'],
  ])('are refused for %j', async (body, detail) => {
    const admin = await startAdmin()
    const answer = await admin.request('POST', '/tokens', body)
    expect(answer.status).toBe(400)
    expect((answer.body as { readonly detail: string }).detail).toContain(detail)
  })

  test('that do not exist cannot be revoked', async () => {
    const admin = await startAdmin()
    const answer = await admin.request('DELETE', '/tokens/nobody')
    expect(answer).toMatchObject({ status: 404, body: { error: 'token_unknown' } })
  })

  test.each(['x'.repeat(501), 'a\nb', 'a\u202eb', 'a\u0000b'])(
    'are refused with why=%j',
    async (why) => {
      const admin = await startAdmin()
      const path = `/rules/per-user?why=${encodeURIComponent(why)}`
      const answer = await admin.request('PATCH', path, { mode: 'off' })
      expect(answer.status).toBe(400)
      expect(answer.text).toContain('accepted: up to 500 printable characters')
    },
  )

  test('may have a why of 500 characters, of any script', async () => {
    const admin = await startAdmin()
    const why = 'ž'.repeat(500)
    const path = `/rules/per-user?why=${encodeURIComponent(why)}`
    expect((await admin.request('PATCH', path, { mode: 'off' })).status).toBe(200)
    const { body } = await admin.request('GET', '/versions?limit=1')
    expect(body).toMatchObject({ versions: [{ why }] })
  })
})

describe('nodes', () => {
  test('are listed if they reported, with where the rules come from', async () => {
    const admin = await startAdmin()
    const { store } = admin.deps.ruleFollower
    await store?.report({ ...admin.deps.node(), id: 'other', rulesVersion: 3 })
    const { body } = await admin.request('GET', '/nodes')
    expect(body).toMatchObject({
      source: 'memory',
      readOnly: null,
      news: 'push',
      ageSeconds: expect.any(Number),
      problem: null,
      nodes: [{ id: 'node-1' }, { id: 'other', rulesVersion: 3, seenMsAgo: 0 }],
    })
  })

  test('include this node even if the rule store is unreachable', async () => {
    const admin = await startAdmin({
      deps: (parts) => {
        const store = parts.ruleFollower.store
        if (store === undefined) throw new Error('there is one')
        const gone = () => Promise.reject(new UnavailableError('the rule store is gone'))
        const broken = Object.assign(Object.create(store) as typeof store, {
          nodes: gone,
          keys: gone,
          history: gone,
        })
        return { ...parts, ruleFollower: withStore(parts.ruleFollower, broken) }
      },
    })
    const { body } = await admin.request('GET', '/nodes')
    expect(body).toMatchObject({ nodes: [{ id: 'node-1' }] })
    const keys = await admin.request('GET', '/keys')
    expect(keys).toMatchObject({ status: 503, body: { error: 'rules_unavailable' } })
    // A read, so the error does not mention a change.
    const past = await admin.request('GET', '/versions')
    const problem = { error: 'rules_unavailable', detail: 'the rule store is gone' }
    expect(past).toMatchObject({ status: 503, body: problem })
  })
})

describe('calls of the admin API', () => {
  const call = { attributes: { user: 'u1', path: '/v1/orders' } }

  test('charge by check, not by peek, and both return who is counted', async () => {
    const admin = await startAdmin()
    const first = await admin.request('POST', '/check', call)
    expect(first).toMatchObject({
      status: 200,
      body: {
        allowed: true,
        rule: 'per-user',
        remaining: 1,
        callers: [{ rule: 'per-user', caller: { user: 'u1' }, hash: expect.any(String) }],
      },
    })
    const token = await admin.tokenOf('read')
    for (let i = 0; i < 3; i++) {
      const peeked = await admin.request('POST', '/peek', call, { token })
      expect(peeked.body).toMatchObject({ allowed: true, explain: [{ rule: 'per-user' }] })
    }
    await admin.request('POST', '/check', call)
    expect((await admin.request('POST', '/check', { ...call, cost: 1 })).body).toMatchObject({
      allowed: false,
      reason: 'over',
    })
  })

  test('return the counters of a caller by inspect', async () => {
    const admin = await startAdmin()
    await admin.request('POST', '/check', call)
    const asked = { rule: 'per-user', attributes: { user: 'u1' } }
    const { body, status } = await admin.request('POST', '/inspect', asked)
    expect(status).toBe(200)
    expect(body).toMatchObject({
      rule: 'per-user',
      caller: { user: 'u1' },
      counters: [{ limit: 'token-bucket-1m', where: 'limits', node: null, remaining: 1 }],
    })
    const unknown = await admin.request('POST', '/inspect', { ...asked, rule: 'nobody' })
    expect(unknown).toMatchObject({ status: 404, body: { error: 'RULE_UNKNOWN' } })
    const missing = await admin.request('POST', '/inspect', { ...asked, attributes: {} })
    expect(missing).toMatchObject({ status: 400, body: { error: 'CALL_INVALID' } })
  })

  test('mask a secret attribute before anything else', async () => {
    const admin = await startAdmin({ rules: [{ id: 'k', by: ['api_key'], limits: ['2/day'] }] })
    const secret = 'sk_live_0123456789abcdef'
    const keyed = { attributes: { api_key: secret } }
    for (const path of ['/check', '/peek']) {
      const { text, status } = await admin.request('POST', path, keyed)
      expect(status).toBe(200)
      expect(text).not.toContain(secret)
      expect(text).toContain('..cdef')
    }
    const { text } = await admin.request('POST', '/inspect', { rule: 'k', ...keyed })
    expect(text).not.toContain(secret)
    expect(text).toContain('"remaining":1')
  })

  test.each([
    [{ attribute: {} }, 'did you mean \\"attributes\\"?'],
    [{ attributes: { user: {} } }, 'attributes.user: found an object'],
    [{ attributes: {}, cost: -1 }, 'cost must be an integer'],
    [[], 'found a list'],
  ])('are refused for %j', async (body, message) => {
    const admin = await startAdmin()
    const answer = await admin.request('POST', '/peek', body)
    expect(answer.status).toBe(400)
    expect(answer.text).toContain(message)
  })
})

/** Overrides and candidates over HTTP. */
import { describe, expect, test } from 'vitest'
import { callerId } from '../../rules/store/records.js'
import { closeAfterTests, PER_USER, startAdmin } from './admin.test-helper.js'

closeAfterTests()

const OVERRIDES = '/rules/per-user/overrides'
const WIDE = { limits: ['100/second'] }

interface Made {
  readonly id: string
  readonly version: number
}

describe('overrides', () => {
  test('are created with 201 and replaced with 200', async () => {
    const admin = await startAdmin()
    const sent = { caller: { user: 'u1' }, ...WIDE, until: '2027-01-01T00:00:00Z' }
    const made = await admin.request('POST', OVERRIDES, sent)
    const { version } = made.body as Made
    expect(made).toMatchObject({ status: 201, body: { id: 'user=u1', ...sent } })
    expect(made.headers.get('etag')).toBe(`"${version}"`)
    expect(made.headers.get('location')).toBe('/admin/v1/rules/per-user/overrides/user=u1')
    const again = await admin.request('POST', OVERRIDES, { caller: { user: 'u1' }, limits: [] })
    expect(again).toMatchObject({ status: 200, body: { id: 'user=u1', limits: [] } })
    expect((await admin.request('GET', '/rules/per-user')).body).toMatchObject({ overrideCount: 1 })
  })

  test('are created by POST without a version: If-Match with one is refused', async () => {
    const admin = await startAdmin()
    const post = (version: string) => {
      const sent = { caller: { user: 'u1' }, ...WIDE }
      return admin.request('POST', OVERRIDES, sent, { headers: { 'if-match': version } })
    }
    expect(await post('"1"')).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
    expect((await post('*')).status).toBe(201)
  })

  test('in a list are stored all or none', async () => {
    const admin = await startAdmin()
    const list = ['a', 'b', 'c'].map((user) => ({ caller: { user }, ...WIDE }))
    const made = await admin.request('POST', OVERRIDES, list)
    expect(made).toMatchObject({
      status: 200,
      body: { overrides: [{ id: 'user=a' }, { id: 'user=b' }, { id: 'user=c' }] },
    })
    const bad = [
      { caller: { user: 'd' }, ...WIDE },
      { caller: { plan: 'x' }, ...WIDE },
    ]
    const refused = await admin.request('POST', OVERRIDES, bad)
    expect(refused).toMatchObject({ status: 400, body: { error: 'override_invalid' } })
    expect((await admin.request('GET', `${OVERRIDES}/user=d`)).status).toBe(404)
    const most = Array.from({ length: 1001 }, (_, i) => ({ caller: { user: `${i}` }, limits: [] }))
    expect((await admin.request('POST', OVERRIDES, most)).status).toBe(400)
    expect((await admin.request('POST', OVERRIDES, most.slice(1))).status).toBe(200)
    expect((await admin.request('POST', OVERRIDES, 'u1')).status).toBe(400)
  })

  test('are listed in pages, in the order of their callers', async () => {
    const admin = await startAdmin()
    const users = Array.from({ length: 25 }, (_, i) => `u${String(i).padStart(2, '0')}`)
    await admin.request(
      'POST',
      OVERRIDES,
      users.map((user) => ({ caller: { user }, ...WIDE })),
    )
    const ids: string[] = []
    let after: string | null = ''
    while (after !== null) {
      const from: string = after === '' ? '' : `&after=${encodeURIComponent(after)}`
      const { body } = await admin.request('GET', `${OVERRIDES}?limit=10${from}`)
      const page = body as { readonly overrides: readonly Made[]; readonly next: string | null }
      ids.push(...page.overrides.map(({ id }) => id))
      after = page.next
    }
    expect(ids).toEqual(users.map((user) => `user=${user}`))
  })

  test.each(['u1', 'a/b', 'a,b', '100%', '%2F', 'a=b', 'größe 東京', 'x?y#z', '..'])(
    'of the caller %j are found by its id in a path, encoded once or twice',
    async (user) => {
      const admin = await startAdmin()
      const id = callerId(['user'], { user })
      for (const segment of [id, encodeURIComponent(id)]) {
        const path = `${OVERRIDES}/${segment}`
        const put = await admin.request('PUT', path, WIDE)
        expect(put).toMatchObject({ status: 201, body: { id, caller: { user } } })
        expect((await admin.request('PUT', path, WIDE)).status).toBe(200)
        expect((await admin.request('GET', path)).body).toMatchObject({ id, ...WIDE })
        expect((await admin.request('DELETE', path)).status).toBe(200)
        const gone = await admin.request('GET', path)
        expect(gone).toMatchObject({ status: 404, body: { error: 'override_unknown' } })
      }
    },
  )

  test('honour If-Match, and refuse a body that names another caller than the path', async () => {
    const admin = await startAdmin()
    const path = `${OVERRIDES}/user=u1`
    const { version } = (await admin.request('PUT', path, WIDE)).body as Made
    const stale = { headers: { 'if-match': `"${version - 1}"` } }
    expect(await admin.request('PUT', path, WIDE, stale)).toMatchObject({
      status: 409,
      body: { error: 'version_conflict', version },
    })
    expect((await admin.request('DELETE', path, undefined, stale)).status).toBe(409)
    const other = { ...WIDE, caller: { user: 'u2' } }
    expect((await admin.request('PUT', path, other)).status).toBe(400)
    expect((await admin.request('PUT', path, { ...WIDE, caller: { user: 'u1' } })).status).toBe(200)
  })

  test('of a caller that the rule does not count by are refused with what it counts by', async () => {
    const admin = await startAdmin()
    const refused = await admin.request('GET', `${OVERRIDES}/plan=pro`)
    expect(refused.status).toBe(400)
    expect(refused.text).toContain('accepted: user=<value>')
    expect((await admin.request('GET', '/rules/nobody/overrides/user=u1')).status).toBe(404)
    expect((await admin.request('GET', '/rules/nobody/overrides')).status).toBe(404)
  })

  test('exist for rules by several attributes, and by none', async () => {
    const rules = [
      { id: 'both', by: ['user', 'plan'], limits: ['1/day'] },
      { id: 'all', limits: ['1/day'] },
    ]
    const admin = await startAdmin({ rules })
    const path = '/rules/both/overrides/user=a%2Cb,plan=pro'
    expect((await admin.request('PUT', path, WIDE)).body).toMatchObject({
      id: 'user=a%2Cb,plan=pro',
      caller: { user: 'a,b', plan: 'pro' },
    })
    const everybody = await admin.request('PUT', '/rules/all/overrides/everybody', WIDE)
    expect(everybody).toMatchObject({ status: 201, body: { id: 'everybody', caller: {} } })
  })

  test('with a secret attribute are stored by its hash, and found by the secret', async () => {
    const admin = await startAdmin({ rules: [{ id: 'k', by: ['api_key'], limits: ['1/day'] }] })
    const secret = 'sk_live_0123456789abcdef'
    const path = `/rules/k/overrides/api_key=${secret}`
    const put = await admin.request('PUT', path, WIDE)
    expect(put.status).toBe(201)
    expect(put.text).not.toContain(secret)
    expect((await admin.request('GET', path)).status).toBe(200)
    expect((await admin.request('GET', '/rules/k/overrides')).text).not.toContain(secret)
    expect((await admin.request('DELETE', path)).status).toBe(200)
    expect(JSON.stringify(admin.memoryLog.lines)).not.toContain(secret)
  })

  test('of an address are found however it is spelled', async () => {
    const admin = await startAdmin({ rules: [{ id: 'ip', by: ['ip'], limits: ['1/day'] }] })
    await admin.request('PUT', '/rules/ip/overrides/ip=2001:db8::1', WIDE)
    const found = await admin.request('GET', '/rules/ip/overrides/ip=2001:DB8:0:0:ffff::2')
    expect(found.status).toBe(200)
  })

  test('take effect at once', async () => {
    const admin = await startAdmin()
    const call = { attributes: { user: 'u1' } }
    for (let i = 0; i < 2; i++) await admin.request('POST', '/check', call)
    expect((await admin.request('POST', '/check', call)).body).toMatchObject({ allowed: false })
    await admin.request('PUT', `${OVERRIDES}/user=u1`, { limits: [] })
    expect((await admin.request('POST', '/check', call)).body).toMatchObject({ allowed: true })
  })
})

describe('a candidate', () => {
  const CANDIDATE = '/rules/per-user/candidate'

  test('is stored, read, withdrawn, and promoted', async () => {
    const admin = await startAdmin()
    const none = await admin.request('GET', CANDIDATE)
    expect(none).toMatchObject({ status: 404, body: { error: 'candidate_unknown' } })
    const candidate = { limits: ['1/minute'] }
    const put = await admin.request('PUT', CANDIDATE, candidate)
    expect(put).toMatchObject({ status: 200, body: { ...PER_USER, candidate } })
    const read = await admin.request('GET', CANDIDATE)
    expect(read.body).toEqual(candidate)
    expect(read.headers.get('etag')).toBe(put.headers.get('etag'))
    const stale = { headers: { 'if-match': '"1"' } }
    expect((await admin.request('DELETE', CANDIDATE, undefined, stale)).status).toBe(409)
    expect((await admin.request('DELETE', CANDIDATE)).body).not.toHaveProperty('candidate')
    await admin.request('PUT', CANDIDATE, candidate)
    const promoted = await admin.request('POST', '/rules/per-user/promote')
    expect(promoted).toMatchObject({ status: 200, body: candidate })
    expect(promoted.body).not.toHaveProperty('candidate')
    expect((await admin.request('POST', '/rules/per-user/promote')).status).toBe(404)
  })

  test('is refused with its place if it is invalid', async () => {
    const admin = await startAdmin()
    const refused = await admin.request('PUT', CANDIDATE, { limits: ['x'] })
    expect(refused.status).toBe(400)
    expect(refused.text).toContain('candidate')
  })
})

/** Tests rules over HTTP: single ones, the set, and their versions. */
import { parseRules } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { closeAfterTests, PER_USER, startAdmin } from './admin.test-helper.js'

closeAfterTests()

const LOGIN = { id: 'login', match: { path: '/login' }, by: ['ip'], limits: ['5/minute'] }

interface Page {
  readonly version: number
  readonly next: string | null
  readonly rules: readonly { readonly id: string; readonly version: number }[]
}

test('the fields of a set are read and replaced with its rules, and are part of its versions', async () => {
  const admin = await startAdmin()
  const fields = {
    routes: ['GET /v1/orders/:id'],
    strictPaths: true,
    priorities: ['critical', 'reads'],
    classify: [{ match: { method: 'GET' }, as: 'reads' }],
    shed: { loop: '50ms', mode: 'shadow' },
  }
  const put = (set: object) => admin.request('PUT', '/rules', set, { headers: { 'if-match': '*' } })
  expect((await put({ ...fields, rules: [LOGIN] })).status).toBe(200)
  const { version, ...page } = (await admin.request('GET', '/rules')).body as Page
  expect(page).toMatchObject(fields)
  const { status, body } = await put({ rules: [LOGIN] })
  expect([status, (body as { diff: { set: object[] } }).diff.set]).toMatchObject([
    200,
    [
      { field: 'routes' },
      { field: 'strictPaths' },
      { field: 'priorities' },
      { field: 'classify' },
      { field: 'shed', after: '' },
    ],
  ])
  const none = (await admin.request('GET', '/rules')).body as object
  for (const field of ['priorities', 'classify', 'shed']) expect(none).not.toHaveProperty(field)
  await admin.request('POST', '/rollback', { version }, { headers: { 'if-match': '*' } })
  expect((await admin.request('GET', '/rules')).body).toMatchObject(fields)
})

describe('one rule', () => {
  test('is created with 201, its location and its version, and read back', async () => {
    const admin = await startAdmin()
    const made = await admin.request('POST', '/rules', LOGIN)
    expect(made.status).toBe(201)
    expect(made.headers.get('location')).toBe('/admin/v1/rules/login')
    const { version } = made.body as { readonly version: number }
    expect(made.headers.get('etag')).toBe(`"${version}"`)
    const read = await admin.request('GET', '/rules/login')
    expect(read.body).toEqual({ ...LOGIN, version, overrideCount: 0 })
    expect(read.headers.get('etag')).toBe(`"${version}"`)
    expect(await admin.request('POST', '/rules', LOGIN)).toMatchObject({
      status: 409,
      body: { error: 'rule_exists' },
    })
  })

  test('is refused with the messages of a rules file if it is invalid', async () => {
    const admin = await startAdmin()
    const bad = { id: 'bad', limts: ['1/day'] }
    const { status, body } = await admin.request('POST', '/rules', bad)
    expect(status).toBe(400)
    const problem = body as { readonly error: string; readonly errors: readonly object[] }
    expect(problem.error).toBe('rules_invalid')
    expect(problem.errors).toEqual(parseRules([bad]).errors)
  })

  test('is replaced by PUT only with the version that was read', async () => {
    const admin = await startAdmin()
    const change = { ...PER_USER, limits: ['1/minute'] }
    const without = await admin.request('PUT', '/rules/per-user', change)
    expect(without).toMatchObject({ status: 428, body: { error: 'precondition_required' } })
    const { headers, body } = await admin.request('GET', '/rules/per-user')
    const etag = headers.get('etag') ?? ''
    const put = (sent: object, ifMatch?: string) =>
      admin.request('PUT', '/rules/per-user', sent, {
        headers: ifMatch === undefined ? {} : { 'if-match': ifMatch },
      })
    expect((await put(change, etag)).status).toBe(200)
    const stale = await put(change, etag)
    const { version } = (await admin.request('GET', '/rules/per-user')).body as Page
    expect(stale).toMatchObject({ status: 409, body: { error: 'version_conflict', version } })
    expect(stale.headers.get('etag')).toBe(`"${version}"`)
    expect((await put(body as object)).status).toBe(409)
    expect((await put({ ...change, version })).status).toBe(200)
    expect((await put(change, '*')).status).toBe(200)
    expect(await put({ ...change, version: 1 }, '"2"')).toMatchObject({ status: 400 })
    expect(await put({ ...change, version: 'x' })).toMatchObject({ status: 400 })
  })

  test('B57: is saved by one of two concurrent writers, and the other gets the version', async () => {
    const admin = await startAdmin()
    const { headers } = await admin.request('GET', '/rules/per-user')
    const sent = { headers: { 'if-match': headers.get('etag') ?? '' } }
    const save = (max: number) =>
      admin.request('PUT', '/rules/per-user', { ...PER_USER, limits: [`${max}/minute`] }, sent)
    const answers = await Promise.all([save(10), save(20)])
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409])
    const won = answers.find(({ status }) => status === 200)?.body as Page
    const lost = answers.find(({ status }) => status === 409)
    expect(lost?.body).toMatchObject({ error: 'version_conflict', version: won.version })
  })

  test('is merged by PATCH, which honours If-Match if it is sent', async () => {
    const admin = await startAdmin()
    const type = { 'content-type': 'application/merge-patch+json' }
    const shadow = await admin.request(
      'PATCH',
      '/rules/per-user',
      { mode: 'shadow' },
      {
        headers: type,
      },
    )
    expect(shadow).toMatchObject({ status: 200, body: { mode: 'shadow', by: ['user'] } })
    const plain = await admin.request('PATCH', '/rules/per-user', { mode: null })
    expect(plain.body).not.toHaveProperty('mode')
    const stale = { headers: { 'if-match': '"1"' } }
    expect((await admin.request('PATCH', '/rules/per-user', { mode: 'off' }, stale)).status).toBe(
      409,
    )
    const gone = await admin.request('PATCH', '/rules/nobody', { mode: 'off' })
    expect(gone).toMatchObject({ status: 404, body: { error: 'rule_unknown' } })
  })

  test('security 37: is removed as the last one only if that is confirmed', async () => {
    const admin = await startAdmin()
    const asked = await admin.request('DELETE', '/rules/per-user')
    expect(asked).toMatchObject({ status: 409, body: { error: 'confirmation_needed' } })
    expect((await admin.request('DELETE', '/rules/per-user?confirm=yes')).status).toBe(400)
    const done = await admin.request('DELETE', '/rules/per-user?confirm=last-rule')
    expect(done).toMatchObject({ status: 200, body: { version: expect.any(Number) } })
    expect((await admin.request('GET', '/rules/per-user')).status).toBe(404)
  })

  test('refuses __proto__ as an unknown field, and changes no prototype', async () => {
    const admin = await startAdmin()
    const text = '{"id":"p","limits":["1/day"],"__proto__":{"polluted":true}}'
    const headers = { 'content-type': 'application/json' }
    const answer = await admin.request('POST', '/rules', undefined, { text, headers })
    expect(answer).toMatchObject({ status: 400, body: { error: 'rules_invalid' } })
    expect(answer.text).toContain('__proto__')
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
  })
})

describe('the rule set', () => {
  const many = Array.from({ length: 250 }, (_, i) => ({
    id: `r-${i}`,
    match: { path: `/p/${i}` },
    limits: [`${i}/day`],
  }))

  test('is read in pages, in its order', async () => {
    const admin = await startAdmin({ rules: many })
    const ids: string[] = []
    let after = ''
    for (let pages = 1; ; pages++) {
      const { body, headers } = await admin.request('GET', `/rules?limit=100${after}`)
      const { rules, next, version } = body as Page
      expect(headers.get('etag')).toBe(`"${version}"`)
      ids.push(...rules.map(({ id }) => id))
      if (next === null) {
        expect(pages).toBe(3)
        break
      }
      after = `&after=${next}`
    }
    expect(ids).toEqual(many.map(({ id }) => id))
    expect(((await admin.request('GET', '/rules')).body as Page).rules).toHaveLength(100)
    expect((await admin.request('GET', '/rules?after=gone')).status).toBe(400)
  })

  test.each(['0', '1001', '-1', '1.5', 'x', '', '1e2', '0x10'])(
    'is refused with limit=%s',
    async (n) => {
      const admin = await startAdmin()
      const { status, body } = await admin.request('GET', `/rules?limit=${n}`)
      expect([status, body]).toMatchObject([
        400,
        { detail: `query.limit: found "${n}"; accepted: a whole number from 1 to 1000` },
      ])
    },
  )

  test.each([
    ['application/json', JSON.stringify({ rules: [PER_USER, LOGIN] })],
    ['application/json', JSON.stringify([PER_USER, LOGIN])],
    [
      'application/yaml',
      `- {id: per-user, by: [user], limits: [2/minute]}\n- ${JSON.stringify(LOGIN)}`,
    ],
    ['text/yaml', JSON.stringify([PER_USER, LOGIN])],
  ])('is replaced by %s: %s', async (type, text) => {
    const admin = await startAdmin()
    const sent = { text, headers: { 'content-type': type } }
    const dry = await admin.request('PUT', '/rules?dryRun=true', undefined, sent)
    expect(dry).toMatchObject({ status: 200, body: { diff: { rules: [{ change: 'added' }] } } })
    expect((await admin.request('GET', '/rules/login')).status).toBe(404)
    const done = await admin.request('PUT', '/rules?why=incident%2042', undefined, sent)
    expect(done).toMatchObject({ status: 200, body: { diff: { rules: [{ id: 'login' }] } } })
    expect((await admin.request('GET', '/rules/login')).status).toBe(200)
    const { headers } = await admin.request('GET', '/rules')
    expect(done.headers.get('etag')).toBe(headers.get('etag'))
    const past = (await admin.request('GET', '/versions?limit=1')).body as {
      readonly versions: readonly object[]
    }
    expect(past.versions[0]).toMatchObject({ by: 'admin', why: 'incident 42' })
  })

  test('is not replaced if it has another version by now', async () => {
    const admin = await startAdmin()
    const { headers, body } = await admin.request('GET', '/rules')
    const etag = headers.get('etag') ?? ''
    await admin.request('POST', '/rules', LOGIN)
    const stale = await admin.request('PUT', '/rules', [PER_USER], {
      headers: { 'if-match': etag },
    })
    expect(stale).toMatchObject({ status: 409, body: { error: 'version_conflict' } })
    expect((await admin.request('PUT', '/rules', body)).status).toBe(409)
  })

  test('accepts a page that was read, but not one of several', async () => {
    const admin = await startAdmin({ rules: [PER_USER, LOGIN] })
    const whole = await admin.request('GET', '/rules')
    expect((await admin.request('PUT', '/rules', whole.body)).status).toBe(200)
    const part = await admin.request('GET', '/rules?limit=1')
    const refused = await admin.request('PUT', '/rules', part.body)
    expect(refused).toMatchObject({ status: 400 })
    expect(refused.text).toContain('a page of the rules')
  })

  test('is refused without rules, unless that is confirmed', async () => {
    const admin = await startAdmin()
    const asked = await admin.request('PUT', '/rules', [])
    expect(asked).toMatchObject({ status: 409, body: { error: 'confirmation_needed' } })
    expect((await admin.request('PUT', '/rules?confirm=no-rules', [])).status).toBe(200)
  })

  test('turns changed limits into candidates with shadow=true', async () => {
    const admin = await startAdmin()
    const change = [{ ...PER_USER, limits: ['1/minute'] }]
    expect((await admin.request('PUT', '/rules?shadow=true', change)).status).toBe(200)
    const { body } = await admin.request('GET', '/rules/per-user')
    expect(body).toMatchObject({ limits: ['2/minute'], candidate: { limits: ['1/minute'] } })
  })

  test('reports errors of YAML with file, line and column', async () => {
    const admin = await startAdmin()
    const text = '- id: a\n  limts: [1/day]\n'
    const headers = { 'content-type': 'application/yaml' }
    const path = '/rules?file=my.yaml'
    const refused = await admin.request('PUT', path, undefined, { text, headers })
    const { errors } = parseRules(text, { file: 'my.yaml' })
    expect(refused).toMatchObject({ status: 400, body: { error: 'rules_invalid', errors } })
  })

  test('returns the version that its writer created, whatever came after it', async () => {
    const admin = await startAdmin({
      deps: (parts) => ({
        ...parts,
        editor: {
          ...parts.editor,
          async apply(...asked) {
            const applied = await parts.editor.apply(...asked)
            await parts.editor.patch('login', { mode: 'off' }, { by: 'x', why: '' }, undefined)
            return applied
          },
        },
      }),
    })
    const made = await admin.request('PUT', '/rules', [PER_USER, LOGIN])
    const { version } = made.body as { readonly version: number }
    expect(made.headers.get('etag')).toBe(`"${version}"`)
    const headers = { 'if-match': made.headers.get('etag') ?? '' }
    const again = await admin.request('PUT', '/rules', [PER_USER], { headers })
    expect(again).toMatchObject({ status: 409, body: { version: version + 1 } })
  })

  test('is validated with 200, valid or not, and changes nothing', async () => {
    const admin = await startAdmin()
    const token = await admin.tokenOf('read')
    const good = await admin.request('POST', '/validate', [PER_USER, LOGIN], { token })
    expect(good).toMatchObject({
      status: 200,
      body: { valid: true, errors: [], diff: { rules: [{ id: 'login', change: 'added' }] } },
    })
    const bad = await admin.request('POST', '/validate', [{ id: 'x' }], { token })
    expect(bad).toMatchObject({ status: 200, body: { valid: false, diff: null } })
    expect((await admin.request('GET', '/rules/login')).status).toBe(404)
  })

  test('is exported as a complete rules file, and applying that changes nothing', async () => {
    const admin = await startAdmin({ rules: [PER_USER, LOGIN] })
    await admin.request('POST', '/rules/per-user/overrides', {
      caller: { user: 'größe: "x"' },
      limits: ['9/second'],
    })
    await admin.request('PUT', '/rules/login/candidate', { limits: ['1/minute'] })
    const { text, headers, status } = await admin.request('GET', '/export')
    expect([status, headers.get('content-type')]).toEqual([200, 'application/yaml'])
    const { rules, errors } = parseRules(text)
    expect(errors).toEqual([])
    expect(rules?.rules.map(({ id }) => id)).toEqual(['per-user', 'login'])
    const sent = { text, headers: { 'content-type': 'application/yaml' } }
    const again = await admin.request('PUT', '/rules', undefined, sent)
    expect(again).toMatchObject({ status: 200, body: { diff: { set: [], rules: [] } } })
  })

  test('is exported with overrides in one order, whatever order they came in', async () => {
    const exportOf = async (users: readonly string[]) => {
      const admin = await startAdmin()
      for (const user of users) {
        const sent = { caller: { user }, limits: ['9/second'] }
        await admin.request('POST', '/rules/per-user/overrides', sent)
      }
      return (await admin.request('GET', '/export')).text
    }
    expect(await exportOf(['b', 'a', 'c'])).toBe(await exportOf(['c', 'b', 'a']))
  })
})

describe('the history of versions', () => {
  test('is listed newest first, in pages, with who and why', async () => {
    const admin = await startAdmin()
    for (const mode of ['shadow', 'off', 'enforce']) {
      await admin.request('PATCH', `/rules/per-user?why=to%20${mode}`, { mode })
    }
    const first = await admin.request('GET', '/rules/per-user/versions?limit=2')
    const { versions, next } = first.body as {
      readonly versions: readonly object[]
      readonly next: number
    }
    expect(versions).toMatchObject([
      { by: 'admin', why: 'to enforce', changes: [{ kind: 'rule', id: 'per-user' }] },
      { by: 'admin', why: 'to off' },
    ])
    const second = await admin.request('GET', `/rules/per-user/versions?limit=2&before=${next}`)
    expect(second.body).toMatchObject({ versions: [{ why: 'to shadow' }, {}], next: null })
    expect((await admin.request('GET', '/rules/never-was/versions')).status).toBe(404)
  })

  test('gets a new version by a rollback, of one rule or of all', async () => {
    const admin = await startAdmin()
    const { version } = (await admin.request('GET', '/rules/per-user')).body as Page
    await admin.request('PATCH', '/rules/per-user', { mode: 'shadow' })
    await admin.request('POST', '/rules', LOGIN)
    const one = await admin.request('POST', '/rules/per-user/rollback', { version })
    expect(one).toMatchObject({ status: 200, body: { diff: { rules: [{ id: 'per-user' }] } } })
    expect((await admin.request('GET', '/rules/per-user')).body).not.toHaveProperty('mode')
    const all = await admin.request('POST', '/rollback', { version })
    expect(all.status).toBe(200)
    expect((all.body as Page).version).toBeGreaterThan(version)
    expect((await admin.request('GET', '/rules/login')).status).toBe(404)
    const past = await admin.request('GET', '/rules/login/versions')
    expect(past.status).toBe(200)
    const nowhere = await admin.request('POST', '/rollback', { version: 999 })
    expect(nowhere).toMatchObject({ status: 404, body: { error: 'version_unknown' } })
  })

  test.each([[{}], [{ version: '1' }], [{ version: 0 }], [{ version: 1, x: 1 }], [[]], ['1']])(
    'refuses a rollback to %j',
    async (body) => {
      const admin = await startAdmin()
      const answer = await admin.request('POST', '/rollback', body)
      expect(answer).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
      expect((answer.body as { readonly detail: string }).detail).toMatch(/accepted: /)
    },
  )
})

test('rules of a file can be read but not changed', async () => {
  const admin = await startAdmin({ readOnly: true })
  expect((await admin.request('GET', '/rules')).status).toBe(200)
  expect((await admin.request('GET', '/keys')).body).toEqual({ keys: [], next: null })
  const none = { versions: [], next: null, keptSince: null }
  expect((await admin.request('GET', '/versions')).body).toEqual(none)
  expect((await admin.request('POST', '/validate', [PER_USER])).status).toBe(200)
  const refused = await admin.request('POST', '/rules', LOGIN)
  expect(refused).toMatchObject({ status: 403, body: { error: 'read_only' } })
  const nodes = await admin.request('GET', '/nodes')
  expect(nodes.body).toMatchObject({ readOnly: expect.stringContaining('SLUICE_RULES') })
})

/** API keys and admin tokens. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { keyHash, sha256Of } from '../store/key-hash.js'
import { type EditingNode, editingNode, failureOf, META, NOW_MS } from './editor.test-helper.js'

let node: EditingNode
beforeEach(async () => {
  node = await editingNode()
})
afterEach(() => node.close())

const KEY = 'partner-key-0123456789'
const createdAt = new Date(NOW_MS).toISOString()

describe('API keys', () => {
  test('a given key is stored as a hash with the secret of the store', async () => {
    const given = { key: KEY, user: 'u1', plan: 'pro', name: 'the one of Bo' }
    const [made] = await node.editor.createKeys([given], META)
    const hash = keyHash(node.catalog.keySecret ?? '', sha256Of(KEY))
    const id = `k_${hash.slice(0, 24)}`
    const { user, plan, name } = given
    const document = { hash, user, plan, name, state: 'active', last4: '6789', createdAt }
    expect(made).toEqual({ id, document, version: node.catalog.position?.version, key: undefined })
    expect((await node.store.key(id))?.body).toEqual(document)
    expect(JSON.stringify(await node.store.history({ limit: 9 }))).not.toContain(KEY)
    expect(JSON.stringify(node.lines)).not.toContain(KEY)
  })

  test('a key may be given as its SHA-256, or be generated and returned once', async () => {
    const sha256 = sha256Of(KEY).toUpperCase()
    const [hashed, one, two] = await node.editor.createKeys([{ sha256 }, {}, {}], META)
    expect(hashed?.document.hash).toBe(keyHash(node.catalog.keySecret ?? '', sha256Of(KEY)))
    expect(hashed?.document).not.toHaveProperty('last4')
    expect(one?.key).toMatch(/^sk_[\w-]{43}$/)
    expect(one?.key).not.toBe(two?.key)
    expect(one?.document.last4).toBe(one?.key?.slice(-4))
  })

  test('a key is registered once, whichever way it is given', async () => {
    await node.editor.createKeys([{ key: KEY }], META)
    const again = [{ key: 'another-key-0123456789' }, { sha256: sha256Of(KEY) }]
    const failure = await failureOf(node.editor.createKeys(again, META))
    expect(failure).toMatchObject({ code: 'key_exists', status: 409 })
    expect(failure.message).toMatch(/^keys\[1\]: the key is registered already, as k_[0-9a-f]{24}$/)
    expect(await node.store.keys({ limit: 9 })).toHaveLength(1)
  })

  test('an invalid key is refused without being shown', async () => {
    const bad = [
      { key: 'short' },
      { key: `${KEY} with spaces` },
      { key: KEY, sha256: sha256Of(KEY) },
      { sha256: KEY },
      { key: KEY, user: '', state: 'gone' as never, name: 'two\nlines' },
      { [KEY]: 1 },
    ]
    const failure = await failureOf(node.editor.createKeys(bad, META))
    expect(failure).toMatchObject({ code: 'key_invalid', status: 400 })
    expect(failure.problems.map(({ field }) => field)).toEqual([
      'keys[0].key',
      'keys[1].key',
      'keys[2].sha256',
      'keys[3].sha256',
      'keys[4].user',
      'keys[4].name',
      'keys[4].state',
      'keys[5]',
    ])
    expect(failure.message + JSON.stringify(failure.problems)).not.toContain(KEY)
    expect(failure.problems.find(({ field }) => field === 'keys[4].state')?.accepted).toBe(
      'active, disabled',
    )
  })

  test('at most a thousand different keys are registered at once', async () => {
    for (const count of [0, 1001]) {
      const failure = await failureOf(node.editor.createKeys(Array(count).fill({}), META))
      expect(failure.message).toBe(`found ${count} keys; accepted: 1 to 1000 at once`)
    }
    expect(await node.editor.createKeys(Array(1000).fill({}), META)).toHaveLength(1000)
    const twice = await failureOf(node.editor.createKeys([{ key: KEY }, { key: KEY }], META))
    expect(twice.problems[0]).toMatchObject({ code: 'duplicate-value', field: 'keys[1]' })
  })

  test('a patch changes given fields, removes null ones, and keeps the rest', async () => {
    const [made] = await node.editor.createKeys([{ key: KEY, user: 'u1', plan: 'pro' }], META)
    const id = made?.id ?? ''
    const patch = { plan: null, state: 'disabled', name: 'Bo' } as const
    const patched = await node.editor.patchKey(id, patch, META, made?.version)
    const { plan: _plan, ...rest } = made?.document ?? {}
    expect(patched.document).toEqual({ ...rest, state: 'disabled', name: 'Bo' })
    const same = await node.editor.patchKey(id, { name: 'Bo' }, META, undefined)
    expect(same.version).toBe(patched.version)
    const failure = await failureOf(node.editor.patchKey(id, patch, META, made?.version))
    expect(failure).toMatchObject({ code: 'version_conflict', version: patched.version })
    for (const bad of [{ state: null }, { user: '' }, { hash: 'x' }, { hash: null }]) {
      const refused = await failureOf(node.editor.patchKey(id, bad as never, META, undefined))
      expect(refused.code).toBe('key_invalid')
    }
  })

  test('a removed key is gone, and can be registered again', async () => {
    const [made] = await node.editor.createKeys([{ key: KEY }], META)
    const id = made?.id ?? ''
    await node.editor.removeKey(id, META, made?.version)
    for (const edit of [
      () => node.editor.removeKey(id, META, undefined),
      () => node.editor.patchKey(id, { user: 'u' }, META, undefined),
    ]) {
      expect(await failureOf(edit())).toMatchObject({ code: 'key_unknown', status: 404 })
    }
    expect((await node.editor.createKeys([{ key: KEY }], META))[0]?.id).toBe(id)
  })
})

describe('admin tokens', () => {
  test('a token is random, returned once, and stored as its hash', async () => {
    const expiresAt = '2026-02-01T00:00:00+01:00'
    const input = { name: 'deploys', role: 'edit', expiresAt } as const
    const made = await node.editor.createToken(input, META)
    expect(made.token).toMatch(/^slt_[\w-]{43}$/)
    expect(node.catalog.tokens()).toEqual([
      {
        id: made.id,
        version: made.version,
        document: {
          hash: sha256Of(made.token),
          name: 'deploys',
          role: 'edit',
          createdAt,
          expiresAt: '2026-01-31T23:00:00.000Z',
        },
      },
    ])
    expect(JSON.stringify(node.lines)).not.toContain(made.token)
  })

  test.each([
    [{ role: 'read' }, 'name'],
    [{ name: '', role: 'read' }, 'name'],
    [{ name: 'x'.repeat(65), role: 'read' }, 'name'],
    [{ name: 'a\u0007', role: 'read' }, 'name'],
    [{ name: 'a', role: 'owner' }, 'role'],
    [{ name: 'a', role: 'read', expiresAt: '2026-01-01T00:00:00Z' }, 'expiresAt'],
    [{ name: 'a', role: 'read', expiresAt: 'tomorrow' }, 'expiresAt'],
    [{ name: 'a', role: 'read', token: 'x' }, 'token'],
  ])('the token %j is refused for its %s', async (input, field) => {
    const failure = await failureOf(node.editor.createToken(input as never, META))
    expect(failure.code).toBe('token_invalid')
    expect(failure.problems.map((problem) => problem.field)).toEqual([field])
  })

  test('the name of a token is unique in the history', async () => {
    await node.editor.createToken({ name: 'ci', role: 'edit' }, META)
    for (const name of ['ci', 'CI', 'admin', 'sluice']) {
      const failure = await failureOf(node.editor.createToken({ name, role: 'read' }, META))
      expect(failure).toMatchObject({ code: 'token_invalid' })
      expect(failure.message).toContain(`found ${name}, which is in use`)
    }
  })

  test('a removed token is gone', async () => {
    const { id } = await node.editor.createToken({ name: 'a', role: 'read' }, META)
    await node.editor.removeToken(id, META)
    expect(node.catalog.tokens()).toEqual([])
    expect(await failureOf(node.editor.removeToken(id, META))).toMatchObject({
      code: 'token_unknown',
      status: 404,
    })
  })
})

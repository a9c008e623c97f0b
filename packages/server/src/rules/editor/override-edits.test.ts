/** Edits of overrides. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  contentsOf,
  type EditingNode,
  editingNode,
  failureOf,
  META,
  OTHER,
  RULE,
} from './editor.test-helper.js'

let node: EditingNode
beforeEach(async () => {
  node = await editingNode()
  await node.editor.apply([RULE, OTHER, { id: 'all', limits: ['1000/second'] }], META, {})
})
afterEach(() => node.close())

const put = (rule: string, caller: unknown, limits: unknown = [], more: object = {}) =>
  node.editor.putOverrides(rule, [{ caller, limits, ...more }], META, undefined)

describe('overrides', () => {
  test('an override is stored under its caller, and active when the promise resolves', async () => {
    const until = '2027-01-01T00:00:00Z'
    const [made] = await put('orders', { user: 'ü 1' }, ['1/hour'], { until })
    expect(made).toEqual({
      id: 'user=%C3%BC%201',
      document: { caller: { user: 'ü 1' }, limits: ['1/hour'], until },
      version: node.catalog.position?.version,
      isNew: true,
    })
    const attributes = { user: 'ü 1' }
    expect((await node.limiter.check({ attributes })).allowed).toBe(true)
    expect((await node.limiter.check({ attributes })).allowed).toBe(false)
  })

  test('an override replaces that of the same caller', async () => {
    await put('orders', { user: 'u1' }, ['1/hour'])
    const [again] = await put('orders', { user: 'u1' }, ['2/hour'])
    expect(again).toMatchObject({ isNew: false, document: { limits: ['2/hour'] } })
    expect(node.catalog.rule('orders')?.overrideCount).toBe(1)
    const version = node.catalog.position?.version
    const [same] = await put('orders', { user: 'u1' }, ['2/hour'])
    expect(same).toMatchObject({ isNew: false, version })
    expect(node.catalog.position?.version).toBe(version)
  })

  test.each([
    ['login', { ip: '2001:DB8:0:0::1' }, { ip: '2001:db8::2' }, 'ip=2001%3Adb8%3A%3A%2F64'],
    ['login', { ip: '::ffff:192.0.2.7' }, { ip: '192.0.2.7' }, 'ip=192.0.2.7'],
    ['login', { ip: '192.0.2.7/32' }, { ip: '192.0.2.7' }, 'ip=192.0.2.7'],
    ['login', { ip: '2001:DB8::/32' }, { ip: '2001:db8:0::/32' }, 'ip=2001%3Adb8%3A%3A%2F32'],
    ['login', { ip: '2001:db8::1/128' }, { ip: '2001:db8::/64' }, 'ip=2001%3Adb8%3A%3A%2F64'],
    ['orders', { user: 7 }, { user: '7' }, 'user=7'],
    ['all', {}, {}, 'everybody'],
  ])('a caller has one override, however it is written: %s', async (rule, one, two, id) => {
    const [made] = await put(rule, one)
    const [again] = await put(rule, two, ['1/second'])
    expect([made?.id, again?.id]).toEqual([id, id])
    expect(again?.isNew).toBe(false)
  })

  test('an override of a network applies to its callers, and is removed by the network', async () => {
    const [made] = await put('login', { ip: '198.51.100.0/24' }, ['1/hour'])
    expect(made).toMatchObject({ id: 'ip=198.51.100.0%2F24', isNew: true })
    const limitOf = async (ip: string) => {
      const call = { attributes: { ip, method: 'POST', path: '/v1/login' } }
      const { explain } = await node.limiter.explain(call)
      return explain?.find(({ rule }) => rule === 'login')?.override
    }
    expect(await limitOf('198.51.100.7')).toEqual({ ip: '198.51.100.0/24' })
    expect(await limitOf('198.51.101.7')).toBeNull()
    await failureOf(node.editor.removeOverride('login', 'ip=198.51.100.7', META, undefined))
    await node.editor.removeOverride('login', 'ip=198.51.100.0%2F24', META, undefined)
    expect(await limitOf('198.51.100.7')).toBeNull()
    expect(node.catalog.rule('login')?.overrideCount).toBe(0)
    const failure = await failureOf(put('login', { ip: '0.0.0.0/0' }))
    expect(failure.problems[0]?.message).toContain('which is every address')
  })

  test('a posture that makes an override too large to count is refused', async () => {
    const log = { algorithm: 'sliding-window-log', max: 900, window: '1d' }
    await put('orders', { user: 'u1' }, [log])
    const generous = (local: number) =>
      node.editor.patch('orders', { posture: { local } }, META, undefined)
    expect(await failureOf(generous(12))).toMatchObject({ code: 'rules_invalid' })
    await generous(10)
    const more = { ...log, max: 1001 }
    const failure = await failureOf(put('orders', { user: 'u2' }, [more]))
    expect(failure.problems.map(({ code }) => code)).toEqual(['share-too-large'])
    await generous(1)
    await put('orders', { user: 'u2' }, [more])
    const refused = await failureOf(generous(10))
    expect(refused.problems[0]?.message).toContain('user=u2')
  })

  test('overrides are stored by method and path as calls have them, and get new ids with strict paths', async () => {
    const rule = { id: 'paths', by: ['method', 'path'], limits: ['1/second'] }
    await node.editor.create(rule, META)
    const [made] = await put('paths', { path: '/V1/Orders/', method: 'get' })
    expect(made?.document.caller).toEqual({ method: 'GET', path: '/v1/orders' })
    await node.editor.apply({ strictPaths: true, rules: [rule] }, META, {})
    await put('paths', { method: 'GET', path: '/A/' })
    await node.editor.apply({ strictPaths: false, rules: [rule] }, META, {})
    const ids = node.catalog.overrides('paths', undefined, 9).map(({ id }) => id)
    expect(ids).toEqual(['method=GET,path=%2Fa', 'method=GET,path=%2Fv1%2Forders'])
    await node.editor.apply({ strictPaths: true, rules: [rule] }, META, {})
    await put('paths', { method: 'GET', path: '/A' })
    const lenient = { strictPaths: false, rules: [rule] }
    const failure = await failureOf(node.editor.apply(lenient, META, {}))
    expect(failure.problems[0]).toMatchObject({ code: 'bad-caller', field: 'strictPaths' })
  })

  test('an override never stores a secret in plain text, and is found by the secret', async () => {
    await node.editor.create({ id: 'keys', by: ['api_key'], limits: ['1/second'] }, META)
    const secret = 'sk_0123456789abcdef'
    const [made] = await put('keys', { api_key: secret })
    expect(made?.document.caller['api_key']).toMatch(/^[0-9a-f]{16}\.\.cdef$/)
    expect(JSON.stringify(contentsOf(node.catalog))).not.toContain(secret)
    await node.editor.removeOverride('keys', `api_key=${secret}`, META, undefined)
    expect(node.catalog.rule('keys')?.overrideCount).toBe(0)
  })

  test('an invalid override is refused with its place in the list, and none is made', async () => {
    const overrides = [
      { caller: { user: 'u1' }, limits: [] },
      { caller: { usr: 'u2' }, limits: ['1/secund'] },
      5 as never,
    ]
    const failure = await failureOf(node.editor.putOverrides('orders', overrides, META, undefined))
    expect(failure).toMatchObject({ code: 'override_invalid', status: 400 })
    expect(failure.problems.map(({ field }) => field)).toEqual([
      'overrides[1].caller.usr',
      'overrides[1].caller.user',
      'overrides[1].limits[0]',
      'overrides[2]',
    ])
    expect(failure.problems[0]?.message).toMatch(
      /^rule "orders": overrides\[1\]\.caller\.usr: "usr"/,
    )
    expect(node.catalog.rule('orders')?.overrideCount).toBe(0)
  })

  test('at most a thousand overrides of different callers are put at once', async () => {
    const some = (count: number) =>
      Array.from({ length: count }, (_, i) => ({ caller: { user: `u${i}` }, limits: [] }))
    for (const count of [0, 1001]) {
      const failure = await failureOf(node.editor.putOverrides('orders', some(count), META, 0))
      expect(failure.message).toBe(`found ${count} overrides; accepted: 1 to 1000 at once`)
    }
    const made = await node.editor.putOverrides('orders', some(1000), META, undefined)
    expect(made).toHaveLength(1000)
    const twice = [...some(2), ...some(1)]
    const failure = await failureOf(node.editor.putOverrides('orders', twice, META, undefined))
    expect(failure.problems[0]?.message).toBe(
      'rule "orders": overrides[2]: user=u0 has an override already, overrides[0]. ' +
        'Accepted: one override for each caller',
    )
  })

  test('an override of a caller that is too long is refused', async () => {
    const failure = await failureOf(put('orders', { user: 'ü'.repeat(400) }))
    expect(failure.problems[0]).toMatchObject({ code: 'too-long', field: 'overrides[0].caller' })
  })

  test('an edit that expects another version is refused with the present one', async () => {
    const [made] = await put('orders', { user: 'u1' })
    const seen = made?.version ?? 0
    const one = [{ caller: { user: 'u1' }, limits: ['1/second'] }]
    const [next] = await node.editor.putOverrides('orders', one, META, seen)
    const failure = await failureOf(node.editor.putOverrides('orders', one, META, seen))
    expect(failure).toMatchObject({ code: 'version_conflict', version: next?.version })
    const removal = node.editor.removeOverride('orders', 'user=u1', META, seen)
    expect(await failureOf(removal)).toMatchObject({ code: 'version_conflict' })
  })

  test('an override is removed by its caller, however that is written', async () => {
    await put('login', { ip: '2001:db8::1' })
    await node.editor.removeOverride('login', 'ip=2001%3Adb8%3A%3A9', META, undefined)
    expect(node.catalog.rule('login')?.overrideCount).toBe(0)
    for (const caller of ['ip=192.0.2.1', 'user=u1', '', 'ip=%', 'ip=a,ip=b']) {
      const failure = await failureOf(node.editor.removeOverride('login', caller, META, undefined))
      expect(failure).toMatchObject({ code: 'override_unknown', status: 404 })
    }
    const unknown = await failureOf(node.editor.removeOverride('nope', 'ip=1', META, undefined))
    expect(unknown.code).toBe('rule_unknown')
  })

  test('a rule with more overrides than one version can change is removed with all of them', async () => {
    const many = (from: number) =>
      Array.from({ length: 10_000 }, (_, i) => ({ caller: { user: `u${from + i}` }, limits: [] }))
    await node.editor.patch('orders', { overrides: many(0) }, META, undefined)
    for (let from = 10_000; from < 21_000; from += 1000) {
      await node.editor.putOverrides('orders', many(from).slice(0, 1000), META, undefined)
    }
    expect(node.catalog.rule('orders')?.overrideCount).toBe(21_000)
    const before = node.catalog.position?.version ?? 0
    const clear = node.editor.patch('orders', { overrides: [] }, META, undefined)
    expect((await failureOf(clear)).message).toMatch(
      /^found 21000 rules and overrides that would change; accepted: up to 20000/,
    )
    const options = { expected: undefined, confirmed: false }
    expect(await node.editor.remove('orders', META, options)).toBe(before + 2)
    await node.editor.create(RULE, META)
    expect(node.catalog.rule('orders')?.overrideCount).toBe(0)
  })
})

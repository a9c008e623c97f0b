import { type OverrideChange, parseOverride, parseRules } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { createLimiter } from './index.js'
import { call, limiterOf, perUser, user } from './limiter.test-helper.js'
import { ScriptedStore, limiterOver, scripted, settled } from './scripted-store.test-helper.js'

const hourly = (max: number, more: object = {}) => ({
  algorithm: 'fixed-window',
  max,
  window: '1h',
  ...more,
})

/** An override for a user of the rule `per-user`; undefined removes it. */
function own(
  name: string,
  limits: readonly unknown[] | undefined,
  { until, rule = 'per-user' }: { readonly until?: string; readonly rule?: string } = {},
): OverrideChange {
  const [parsed] = parseRules(perUser(['1/second'])).rules?.rules ?? []
  if (parsed === undefined) throw new Error('no rule')
  const source = { caller: { user: name }, limits: limits ?? [], until }
  const { override, errors } = parseOverride(parsed, source)
  if (override === undefined) throw new Error(errors[0]?.message)
  return { rule, caller: override.caller, override: limits && override }
}

describe('standalone overrides', () => {
  test('a standalone override takes effect at once, keeps what was used, and can be removed at once', () => {
    const { limiter } = limiterOf(perUser([hourly(10)]))
    limiter.checkSync(user('u1', 4))
    limiter.changeOverrides([own('u1', [hourly(5)])])
    expect(limiter.checkSync(user('u1'))).toMatchObject({ allowed: true, limit: 5, remaining: 0 })
    expect(limiter.checkSync(user('u1')).allowed).toBe(false)
    expect(limiter.checkSync(user('u2'))).toMatchObject({ limit: 10, remaining: 9 })
    limiter.changeOverrides([own('u1', undefined)])
    expect(limiter.checkSync(user('u1'))).toMatchObject({ limit: 10, remaining: 4 })
  })

  test('a standalone override without limits lets everything through', () => {
    const { limiter } = limiterOf(perUser([hourly(0)]))
    limiter.changeOverrides([own('u1', [])])
    expect(limiter.checkSync(user('u1')).allowed).toBe(true)
    expect(limiter.checkSync(user('u2')).allowed).toBe(false)
  })

  test('a standalone override ends when its time has come', () => {
    const { limiter, clock } = limiterOf(perUser([hourly(10)]))
    limiter.changeOverrides([own('u1', [hourly(100)], { until: '2026-01-01T00:30:00Z' })])
    expect(limiter.checkSync(user('u1'))).toMatchObject({ limit: 100, remaining: 99 })
    clock.advance(30 * 60_000 - 1)
    expect(limiter.checkSync(user('u1'))).toMatchObject({ limit: 100, remaining: 98 })
    clock.advance(1)
    expect(limiter.checkSync(user('u1'))).toMatchObject({ limit: 10, remaining: 7 })
  })

  test('a standalone override takes precedence over one in the rule, and all can be replaced', () => {
    const overrides = [{ caller: { user: 'u1' }, limits: [hourly(20)] }]
    const { limiter } = limiterOf(perUser([hourly(10)], { overrides }))
    const limitOf = (name: string) => limiter.checkSync(user(name, 0)).limit
    limiter.replaceOverrides([own('u1', [hourly(30)]), own('u2', [hourly(40)])])
    expect(['u1', 'u2', 'u3'].map(limitOf)).toEqual([30, 40, 10])
    limiter.replaceOverrides([own('u3', [hourly(50)])])
    expect(['u1', 'u2', 'u3'].map(limitOf)).toEqual([20, 10, 50])
  })

  test('a standalone override of an unknown rule changes nothing', () => {
    const { limiter } = limiterOf(perUser([hourly(10)]))
    limiter.changeOverrides([own('u1', [hourly(30)], { rule: 'unknown' })])
    expect(limiter.checkSync(user('u1')).limit).toBe(10)
  })

  test('a standalone override is refused by a limiter that was closed', async () => {
    const { limiter } = limiterOf(perUser([hourly(10)]))
    await limiter.close()
    expect(() => limiter.changeOverrides([])).toThrow('This limiter was closed')
    expect(() => limiter.replaceOverrides([])).toThrow('This limiter was closed')
  })
})

describe('standalone overrides after a rule change', () => {
  const start = () => {
    const { limiter } = limiterOf(perUser([hourly(10)]))
    limiter.changeOverrides([own('u1', [hourly(30)])])
    const limitOf = (name = 'u1') =>
      limiter.checkSync(call({ user: name, ip: '192.0.2.1' }, 0)).limit
    return { limiter, limitOf }
  }

  test('after a rule change a standalone override stays with its rule', () => {
    const { limiter, limitOf } = start()
    limiter.setParsedRules(parseRules(perUser([hourly(11)], { durable: true })))
    expect([limitOf('u1'), limitOf('u2'), limiter.hasDurable]).toEqual([30, 11, true])
    limiter.setRules(perUser([hourly(12)], { posture: 'closed' }))
    expect([limitOf('u1'), limitOf('u2')]).toEqual([30, 12])
  })

  test('after a rule change a standalone override is dropped if its rule is gone or counts by other attributes', () => {
    const { limiter, limitOf } = start()
    limiter.setParsedRules(parseRules(perUser([hourly(10)], { by: ['user', 'ip'] })))
    expect(limitOf()).toBe(10)
    limiter.setParsedRules(parseRules(perUser([hourly(10)])))
    expect(limitOf()).toBe(10)
    limiter.changeOverrides([own('u1', [hourly(30)])])
    limiter.setParsedRules(parseRules([]))
    limiter.setParsedRules(parseRules(perUser([hourly(10)])))
    expect(limitOf()).toBe(10)
  })

  test('after a rule change a standalone override stays where the new rules are refused', () => {
    const { limiter, limitOf } = start()
    expect(() => limiter.setRules(perUser(['nonsense']))).toThrow('1 error in the rules')
    expect(limitOf()).toBe(30)
  })

  test('rules that the user changed in place are read again', () => {
    const { limiter, limitOf } = start()
    const rules = perUser([hourly(10)])
    limiter.setRules(rules)
    rules[0]?.limits.splice(0, 1, hourly(7))
    limiter.setRules(rules)
    expect(limitOf('u2')).toBe(7)
  })

  test('a standalone override stays valid under the hash secret that the store provides later', async () => {
    let tell: (secret: Uint8Array) => void = () => {}
    const secret = new Promise<Uint8Array>((resolve) => (tell = resolve))
    const store = new ScriptedStore({ secret })
    const limiter = limiterOver(store, perUser([hourly(10)]))
    limiter.changeOverrides([own('u1', [hourly(30)])])
    tell(new Uint8Array(16).fill(7))
    await limiter.ready()
    expect((await limiter.check(user('u1'))).limit).toBe(30)
    const twin = createLimiter({
      rules: perUser([hourly(10)]),
      store,
      secret: new Uint8Array(16).fill(7),
    })
    expect((await twin.peek(user('u1'))).remaining).toBe(9)
  })
})

describe('raising the limit of a refused caller', () => {
  const CACHED = { denyCacheMs: 1000 }

  test.each(['fixed-window', 'token-bucket', 'sliding-window-log', 'sliding-window-counter'])(
    'a refused caller with a raised limit passes at once (%s), and no other refusal is forgotten',
    async (algorithm) => {
      const limit = (max: number) => ({ algorithm, max, window: '1h', name: 'all' })
      const { limiter, store } = await scripted(perUser([limit(1)]), CACHED)
      for (const name of ['u1', 'u2']) {
        await limiter.check(user(name))
        while ((await limiter.check(user(name))).allowed);
      }
      expect(await limiter.check(user('u1'))).toMatchObject({ source: 'deny-cache' })
      limiter.changeOverrides([own('u1', [limit(5)])])
      expect(await limiter.check(user('u1'))).toMatchObject({ allowed: true, source: 'store' })
      const requests = store.requests.length
      expect(await limiter.check(user('u2'))).toMatchObject({ source: 'deny-cache' })
      expect(store.requests).toHaveLength(requests)
    },
  )

  test('a refused caller with a raised limit is not refused by an earlier answer in flight', async () => {
    const { limiter, store } = await scripted(perUser([hourly(1)]), CACHED)
    await limiter.check(user('u1'))
    store.isHeld = true
    const late = limiter.check(user('u1'))
    limiter.changeOverrides([own('u1', [hourly(5)])])
    store.release()
    await settled()
    expect((await late).allowed).toBe(false)
    expect(await limiter.check(user('u1'))).toMatchObject({ allowed: true, source: 'store' })
  })

  test('many refused callers with raised limits all pass at once', async () => {
    const { limiter } = await scripted(perUser([hourly(1)]), CACHED)
    const names = Array.from({ length: 150 }, (_, i) => `u${i}`)
    for (const name of names) for (let i = 0; i < 2; i++) await limiter.check(user(name))
    limiter.changeOverrides(names.map((name) => own(name, [hourly(5)])))
    for (const name of names) expect((await limiter.check(user(name))).allowed).toBe(true)
  })

  test('a refused caller passes at once after all overrides were replaced', async () => {
    const { limiter } = await scripted(perUser([hourly(1)]), CACHED)
    for (let i = 0; i < 2; i++) await limiter.check(user('u1'))
    limiter.replaceOverrides([own('u1', [hourly(5)])])
    expect((await limiter.check(user('u1'))).allowed).toBe(true)
  })
})

describe('refunds under an override', () => {
  const bucket = (max: number, more: object = {}) => ({ max, window: '1h', name: 'all', ...more })
  const others = Array.from({ length: 50 }, (_, i) => own(`other${i}`, [bucket(1000 + i)]))

  test('usage under an override is refunded by the limit of the override', async () => {
    const { limiter } = limiterOf(perUser([bucket(10)]))
    limiter.replaceOverrides([...others, own('u1', [bucket(100)])])
    const { receipt = '' } = limiter.checkSync(user('u1', 60), { receipt: true })
    limiter.checkSync(user('u1', 30))
    await limiter.refund(receipt)
    expect((await limiter.peek(user('u1'))).remaining).toBe(70)
  })

  test('usage under an override is given back also where only the override has such a limit', async () => {
    const { limiter } = limiterOf(perUser([bucket(10)]))
    limiter.replaceOverrides([...others, own('u1', [bucket(100, { name: 'mine' })])])
    const { receipt = '' } = limiter.checkSync(user('u1', 60), { receipt: true })
    await limiter.refund(receipt)
    expect((await limiter.peek(user('u1'))).remaining).toBe(100)
  })

  test('usage under an override is forgotten by a reset, under every name', async () => {
    const { limiter } = limiterOf(perUser([bucket(10)]))
    limiter.changeOverrides([own('u1', [bucket(100), bucket(100, { name: 'mine' })])])
    limiter.checkSync(user('u1', 60))
    await limiter.reset(user('u1'))
    const names = (await limiter.explain(user('u1'))).explain?.[0]?.limits
    expect(names).toMatchObject([
      { name: 'all', remaining: 100 },
      { name: 'mine', remaining: 100 },
    ])
  })
})

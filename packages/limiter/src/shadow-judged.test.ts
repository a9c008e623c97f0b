/** Shadow rules and candidates report verdicts only for calls that they judged. */
import { formatHash, type Hash64 } from '@sluice/core'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Decision } from './index.js'
import { call, limiterOf, perUser, user } from './limiter.test-helper.js'
import { type Fate, scripted } from './scripted-store.test-helper.js'
import { propertyRuns } from '../../../tools/property-runs.js'

const window = (max: number, more: object = {}) => ({
  algorithm: 'fixed-window',
  max,
  window: '1h',
  ...more,
})
const shadow = (id: string, max: number, more: object = {}) => ({
  id,
  by: ['user'],
  limits: [window(max)],
  mode: 'shadow',
  ...more,
})
const tried = (max: number, trial: number, more: object = {}) =>
  perUser([window(max)], { candidate: { limits: [window(trial)] }, ...more })

/** The verdict of each rule and candidate, by both fields of a decision. */
function judgedOf(decision: Decision): { rules: readonly string[]; callers: readonly string[] } {
  const rules: string[] = []
  const callers: string[] = []
  decision.eachRule((rule, outcome) => rules.push(`${rule} ${outcome}`))
  decision.eachCaller((rule, _by, _caller, outcome) => callers.push(`${rule} ${outcome}`))
  return { rules, callers }
}

describe('calls without a shadow verdict', () => {
  test('no shadow rule gives a verdict on a call that the store refused', () => {
    const { limiter } = limiterOf([...tried(2, 1), shadow('trial', 1)])
    limiter.checkSync(user('u1'))
    expect(judgedOf(limiter.checkSync(user('u1'))).rules).toEqual([
      'per-user allowed',
      'per-user:candidate shadow_refused',
      'trial shadow_refused',
    ])
    const refused = limiter.checkSync(user('u1'))
    expect(judgedOf(refused)).toEqual({
      rules: ['per-user refused'],
      callers: ['per-user refused'],
    })
    expect(refused.shadowRefusals()).toEqual([])
  })

  test('no shadow rule gives a verdict on a call that was refused from the deny cache', async () => {
    const { limiter } = await scripted([...tried(1, 5), shadow('trial', 5)], { denyCacheMs: 1000 })
    await limiter.check(user('u1'))
    await limiter.check(user('u1'))
    const cached = await limiter.check(user('u1'))
    expect(cached.source).toBe('deny-cache')
    expect(judgedOf(cached)).toEqual({ rules: ['per-user refused'], callers: ['per-user refused'] })
  })

  test.each(['not-run', 'ran', 'lost'] as const)(
    'no shadow rule gives a verdict on a call that the store did not answer (%s)',
    async (fate) => {
      const { limiter, store } = await scripted([...tried(9, 5), shadow('trial', 5)])
      store.all(fate)
      const decision = await limiter.check(user('u1'))
      expect(decision).toMatchObject({ allowed: true, source: 'posture' })
      expect(judgedOf(decision)).toEqual({
        rules: ['per-user allowed'],
        callers: ['per-user allowed'],
      })
    },
  )

  test('no shadow rule gives a verdict on a call that was decided from a last known state while the store was slow', async () => {
    vi.useFakeTimers()
    const { limiter, store } = await scripted([...tried(9, 5, { hedge: true }), shadow('trial', 5)])
    await limiter.check(user('u1'))
    store.isHeld = true
    const pending = limiter.check(user('u1'))
    await vi.advanceTimersByTimeAsync(10)
    const decision = await pending
    expect(decision.source).toBe('local')
    expect(judgedOf(decision)).toEqual({
      rules: ['per-user allowed'],
      callers: ['per-user allowed'],
    })
    store.release()
  })

  test('a shadow rule gives no verdict on a call whose cost it cannot read', () => {
    const cost = { attribute: 'tokens' }
    const { limiter } = limiterOf([
      { id: 'plain', by: ['user'], limits: [window(9)] },
      shadow('trial', 5, { cost, candidate: { limits: [window(1)] } }),
    ])
    const decision = limiter.checkSync(call({ user: 'u1', tokens: 'many' }))
    expect(judgedOf(decision)).toEqual({ rules: ['plain allowed'], callers: ['plain allowed'] })
  })

  beforeEach(() => void vi.useRealTimers())
  afterEach(() => void vi.useRealTimers())
})

test('a shadow group that the store answered is judged even if another one was not', async () => {
  const { limiter, store } = await scripted([
    ...perUser([window(9)]),
    shadow('lost', 5),
    shadow('counted', 0),
  ])
  store.script.fate = (group) => (group === 1 ? 'lost' : 'answer')
  const decision = await limiter.check(user('u1'))
  expect(judgedOf(decision).rules).toEqual(['per-user allowed', 'counted shadow_refused'])
})

test('a shadow rule without a limit for a caller judged the call and allows it', () => {
  const { limiter } = limiterOf([shadow('trial', 1, { tiers: { plan: { pro: [] } } })])
  const pro = call({ user: 'u1', plan: 'pro' })
  limiter.checkSync(pro)
  expect(judgedOf(limiter.checkSync(pro)).rules).toEqual(['trial allowed'])
})

test('the share left of an enforced rule that the deny cache skipped is unknown', async () => {
  const rules = [
    { id: 'wide', by: ['user'], limits: [window(100)] },
    { id: 'narrow', by: ['user'], limits: [window(1)] },
  ]
  const { limiter } = await scripted(rules, { denyCacheMs: 1000 })
  await limiter.check(user('u1'))
  await limiter.check(user('u1'))
  const cached = await limiter.check(user('u1'))
  const shares: [string, number][] = []
  cached.eachCaller((rule, _by, _caller, _outcome, left) => shares.push([rule, left]))
  expect(cached.source).toBe('deny-cache')
  expect(shares).toEqual([
    ['wide', -1],
    ['narrow', 0],
  ])
})

describe('would-be refusals', () => {
  const hashOf = (decision: Decision, rule: string): Hash64 | undefined => {
    let found: Hash64 | undefined
    decision.eachCaller((id, _by, caller) => {
      if (id === rule) found = caller
    })
    return found
  }

  test('a would-be refusal names the rule, whether it is a candidate, the caller, the limit and the wait', () => {
    const { limiter } = limiterOf([
      ...tried(9, 1),
      shadow('trial', 9, { by: ['ip'], limits: [window(5), window(1, { name: 'one' })] }),
      shadow('wide', 9),
    ])
    const both = call({ user: 'u1', ip: '192.0.2.1' })
    expect(limiter.checkSync(both).shadowRefusals()).toEqual([])
    const decision = limiter.checkSync(both)
    const refusals = decision.shadowRefusals()
    expect(refusals).toMatchObject([
      { rule: 'per-user', mode: 'candidate', by: ['user'], limitName: 'fixed-window-1h' },
      { rule: 'trial', mode: 'shadow', by: ['ip'], limitName: 'one' },
    ])
    for (const { rule, caller, retryAfterMs } of refusals) {
      expect(formatHash(caller)).toBe(formatHash(hashOf(decision, rule) ?? { hi: 0, lo: 0 }))
      expect(retryAfterMs).toBeGreaterThan(0)
    }
  })

  test('a would-be refusal names both a rule in shadow and its own candidate', () => {
    const { limiter } = limiterOf([shadow('trial', 0, { candidate: { limits: [window(0)] } })])
    const refusals = limiter.checkSync(user('u1')).shadowRefusals()
    expect(refusals.map(({ rule, mode }) => [rule, mode])).toEqual([
      ['trial', 'shadow'],
      ['trial', 'candidate'],
    ])
  })

  test('a would-be refusal names no wait where waiting would not have helped', () => {
    const { limiter } = limiterOf([shadow('trial', 3)])
    expect(limiter.checkSync(user('u1', 4)).shadowRefusals()).toMatchObject([
      { rule: 'trial', retryAfterMs: null },
    ])
  })
})

test('whatever the store does, only matched rules of admitted calls have shadow verdicts', async () => {
  const fates = fc.constantFrom<Fate>('answer', 'not-run', 'ran', 'lost')
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(fates, { minLength: 3, maxLength: 3 })), async (rounds) => {
      const { limiter, store } = await scripted([...tried(4, 2), shadow('trial', 3)], {
        denyCacheMs: 1000,
      })
      for (const round of rounds) {
        store.script.fate = (group) => round[group] ?? 'answer'
        const decision = await limiter.check(user('u1'))
        const { rules } = judgedOf(decision)
        const spoke = rules.filter((text) => !text.startsWith('per-user '))
        if (!decision.allowed) expect(spoke).toEqual([])
        expect(decision.shadow).toEqual(
          spoke.flatMap((text) => (text.endsWith(' shadow_refused') ? text.split(' ')[0] : [])),
        )
        expect(decision.shadowRefusals()).toHaveLength(decision.shadow.length)
        for (const [place, id] of ['per-user:candidate', 'trial'].entries()) {
          const isAnswered = round[place + 1] === 'answer'
          const spokeOf = spoke.some((text) => text.startsWith(`${id} `))
          expect(spokeOf).toBe(decision.allowed && isAnswered)
        }
      }
    }),
    { numRuns: propertyRuns(60) },
  )
})

/** Rules with calendar windows, as a program and its callers see them. */
import { rateLimitHeaders } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { createLimiter } from './index.js'
import { perUser, user } from './limiter.test-helper.js'
import { manualClock } from './testing/index.js'

const monthly = { algorithm: 'fixed-window', max: 3, window: 'month', zone: 'Europe/Berlin' }
const daily = { ...monthly, window: 'day' }

/** A limiter at this time. */
function limiterAt(time: string, limits: unknown[], more: object = {}) {
  const clock = manualClock()
  const at = (text: string) => clock.set(Date.parse(text) * 1000)
  at(time)
  return { at, clock, limiter: createLimiter({ rules: perUser(limits, more), clock }) }
}

describe('a calendar window', () => {
  test.each([
    ['Europe/Berlin', '2026-03-28T23:00:00.000Z', '2026-03-29T21:59:59.999Z'],
    ['Europe/Berlin', '2026-10-24T22:00:00.000Z', '2026-10-25T22:59:59.999Z'],
    ['America/New_York', '2026-03-08T05:00:00.000Z', '2026-03-09T03:59:59.999Z'],
    ['America/New_York', '2026-11-01T04:00:00.000Z', '2026-11-02T04:59:59.999Z'],
    ['Asia/Beirut', '2026-03-28T22:00:00.000Z', '2026-03-29T20:59:59.999Z'],
  ])('refuses a caller in %s until the last millisecond of its day', (zone, first, last) => {
    const { at, clock, limiter } = limiterAt(first, [{ ...daily, zone }])
    expect(limiter.checkSync(user('u1', 3)).allowed).toBe(true)
    at(last)
    expect(limiter.checkSync(user('u1'))).toMatchObject({ allowed: false, retryAfterMs: 1 })
    clock.advance(1)
    expect(limiter.checkSync(user('u1'))).toMatchObject({ allowed: true, remaining: 2 })
  })

  test('has no warning, a name with its zone, and no window in the policy', async () => {
    const { limiter, clock } = limiterAt('2026-06-30T21:59:59.000Z', [monthly])
    const rules = perUser([monthly], { match: { where: { user: ['u1'] } } })
    expect(limiter.setRules(rules).map(({ code }) => code)).not.toContain('long-fixed-window')
    const decision = await limiter.check(user('u1'))
    expect(decision).toMatchObject({
      limitName: 'fixed-window-month-europe-berlin',
      resetAfterMs: 1000,
    })
    const headers = rateLimitHeaders(decision, { nowMs: clock.now() / 1000 })
    expect(headers.slice(0, 2)).toEqual([
      ['RateLimit-Policy', '"per-user";q=3'],
      ['RateLimit', '"per-user";r=2;t=1'],
    ])
    const shown = {
      algorithm: 'fixed-window',
      window: 'month',
      zone: 'Europe/Berlin',
      windowMs: 2_678_400_000,
    }
    expect(decision.policies()).toMatchObject([shown])
    const { explain } = await limiter.explain(user('u1'))
    expect(explain?.[0]?.limits).toMatchObject([
      { ...shown, state: { start: Date.UTC(2026, 5, 30, 21, 59, 59) * 1000, count: 1 } },
    ])
  })

  test('takes a refund back until it ends', async () => {
    const { limiter, at } = limiterAt('2026-06-01T00:00:00Z', [monthly])
    const receipts = await Promise.all(
      ['a', 'b'].map(
        async () => (await limiter.check(user('u1'), { receipt: true })).receipt ?? '',
      ),
    )
    at('2026-06-30T21:59:59.999Z')
    await limiter.refund(receipts[0] ?? '')
    expect(limiter.checkSync(user('u1', 0)).remaining).toBe(2)
    at('2026-06-30T22:00:00.000Z')
    limiter.checkSync(user('u1'))
    await limiter.refund(receipts[1] ?? '')
    expect(limiter.checkSync(user('u1', 0)).remaining).toBe(2)
  })

  test('is another counter in another zone, and the same under a given name', () => {
    const { limiter } = limiterAt('2026-06-15T00:00:00Z', [monthly])
    limiter.checkSync(user('u1'))
    limiter.setRules(perUser([{ ...monthly, zone: 'America/New_York' }]))
    expect(limiter.checkSync(user('u1', 0)).remaining).toBe(3)
    limiter.setRules(perUser([{ ...monthly, name: 'budget' }]))
    limiter.checkSync(user('u1'))
    limiter.setRules(perUser([{ ...monthly, name: 'budget', zone: 'America/New_York' }]))
    expect(limiter.checkSync(user('u1', 0)).remaining).toBe(2)
  })

  test('keeps a reserve free for more important calls until it ends', () => {
    const rules = {
      priorities: ['critical', 'other'],
      classify: [{ match: { where: { user: ['u2'] } }, as: 'critical' }, { as: 'other' }],
      rules: [{ id: 'all', limits: [{ ...daily, max: 10 }], headroom: { critical: '20%' } }],
    }
    const clock = manualClock()
    clock.set(Date.UTC(2026, 2, 28, 23) * 1000)
    const limiter = createLimiter({ rules, clock })
    const admitted = (name: string) =>
      Array.from({ length: 12 }, () => limiter.checkSync(user(name)).allowed).filter(Boolean).length
    expect([admitted('u1'), admitted('u2')]).toEqual([8, 2])
    clock.advance(23 * 3_600_000)
    expect([admitted('u1'), admitted('u2')]).toEqual([8, 2])
  })
})

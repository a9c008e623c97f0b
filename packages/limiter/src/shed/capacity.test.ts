/** Refusals of rules that protect capacity: what callers, headers and logs see of them. */
import { describe, expect, test } from 'vitest'
import { flatRateLimitHeaders, refusalResponse } from '@sluice/core'
import { limiterOf } from '../limiter.test-helper.js'

const SET = {
  priorities: ['critical', 'reads'],
  rules: [
    { id: 'per-user', by: ['user'], limits: ['10/minute'] },
    {
      id: 'fleet',
      by: [],
      limits: [{ algorithm: 'fixed-window', max: 5, window: '1s' }],
      headroom: { critical: '20%' },
      protects: 'capacity',
    },
  ],
}
const read = (user = 'u1') => ({ attributes: { user, priority: 'reads' } })
const OPTIONS = { nowMs: 0, postureStatus: 429, jitter: true, fraction: 0.99 } as const

describe('a rule with protects: capacity', () => {
  test('sheds what is above the ceiling, and charges no other rule for it', () => {
    const { limiter } = limiterOf(SET)
    for (let i = 0; i < 4; i++) {
      expect(limiter.checkSync(read())).toMatchObject({ allowed: true, priority: 'reads' })
    }
    const shed = limiter.checkSync(read())
    expect(shed).toMatchObject({
      allowed: false,
      reason: 'shed',
      rule: 'fleet',
      limit: 4,
      remaining: 0,
      priority: 'reads',
    })
    const critical = limiter.checkSync({ attributes: { user: 'u1', priority: 'critical' } })
    expect(critical).toMatchObject({ allowed: true, priority: 'critical' })
    expect(critical.policies()).toMatchObject([{ rule: 'per-user', remaining: 5 }])
  })

  test('is no policy of an admitted caller: headers and the binding limit are those of others', () => {
    const { limiter } = limiterOf(SET)
    const decision = limiter.checkSync(read())
    expect(decision).toMatchObject({ rule: 'per-user', limit: 10, remaining: 9 })
    expect(flatRateLimitHeaders(decision, { nowMs: 0 })).toEqual([
      'RateLimit-Policy',
      '"per-user";q=10;w=60',
      'RateLimit',
      '"per-user";r=9;t=6',
      'X-RateLimit-Limit',
      '10',
      'X-RateLimit-Remaining',
      '9',
      'X-RateLimit-Reset',
      '6',
    ])
  })

  test('answers 429 without RateLimit fields, or 503 if asked to', () => {
    const { limiter } = limiterOf(SET)
    for (let i = 0; i < 4; i++) limiter.checkSync(read(`u${i}`))
    const shed = limiter.checkSync(read())
    const { status, headers, body } = refusalResponse(shed, OPTIONS)
    const seconds = String((shed.retryAfterMs ?? 0) / 1000)
    expect(status).toBe(429)
    expect(headers).toEqual(['Retry-After', seconds, 'Cache-Control', 'no-store'])
    expect(JSON.parse(body)).toEqual({
      type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
      title: 'Temporary Reduced Capacity',
      status: 429,
      detail: `Capacity is reduced. Retry after ${seconds} second${seconds === '1' ? '' : 's'}.`,
      'violated-policies': [],
      error: 'rate_limited',
      retry_after_seconds: Number(seconds),
    })
    expect(refusalResponse(shed, { ...OPTIONS, shedStatus: 503 }).status).toBe(503)
    expect(refusalResponse(shed, { ...OPTIONS, postureStatus: 503 }).status).toBe(429)
  })

  test('spreads the retries of shed calls over 1 to 5 seconds', () => {
    const { limiter } = limiterOf(SET)
    for (let i = 0; i < 4; i++) limiter.checkSync(read(`u${i}`))
    const retries = new Set<number | null>()
    for (let i = 0; i < 300; i++) retries.add(limiter.checkSync(read()).retryAfterMs)
    expect(retries).toEqual(new Set([1000, 2000, 3000, 4000, 5000]))
  })

  test('leaves a caller that is over its own limit refused for that', () => {
    const { limiter } = limiterOf(SET)
    const cost = { ...read(), cost: 4 }
    limiter.checkSync({ attributes: { user: 'u1', priority: 'critical' }, cost: 4 })
    expect(limiter.checkSync({ ...cost, cost: 2 })).toMatchObject({ reason: 'shed' })
    const { limiter: other } = limiterOf([
      { id: 'per-user', by: ['user'], limits: ['1/minute'] },
      { id: 'fleet', by: [], limits: ['1/hour'], protects: 'capacity' },
    ])
    other.checkSync(read())
    expect(other.checkSync(read())).toMatchObject({ reason: 'over', rule: 'per-user' })
    expect(other.checkSync(read('u2'))).toMatchObject({ reason: 'shed', rule: 'fleet' })
  })

  test('says that waiting does not help where a call costs more than its ceiling', () => {
    const { limiter } = limiterOf(SET)
    for (let i = 0; i < 10; i++) limiter.checkSync({ attributes: { user: 'u1' }, cost: 1 })
    expect(limiter.checkSync({ ...read(), cost: 5 })).toMatchObject({
      reason: 'cost_exceeds_limit',
      rule: 'fleet',
      limit: 4,
      retryAfterMs: null,
    })
  })

  test('shows the ceiling of a priority in explanations, and none for the most important', async () => {
    for (const coordination of ['exact', 'leased']) {
      const rules = SET.rules.map((rule) => ({ ...rule, coordination }))
      const { limiter } = limiterOf({ ...SET, rules })
      const limitsOf = async (priority: string) => {
        const { explain } = await limiter.explain({ attributes: { user: 'u1', priority } })
        return explain?.[1]?.limits
      }
      expect(await limitsOf('reads')).toMatchObject([{ limit: 5, ceiling: 4, remaining: 4 }])
      const [critical] = (await limitsOf('critical')) ?? []
      expect(critical).toMatchObject({ limit: 5, remaining: 5 })
      expect(critical).not.toHaveProperty('ceiling')
    }
  })

  test('in shadow would have shed', () => {
    const { limiter } = limiterOf([
      { id: 'fleet', by: [], limits: ['1/hour'], protects: 'capacity', mode: 'shadow' },
    ])
    limiter.checkSync(read())
    const decision = limiter.checkSync(read())
    expect(decision).toMatchObject({ allowed: true, shadow: ['fleet'] })
    expect(decision.shadowRefusals()).toMatchObject([{ rule: 'fleet', reason: 'shed' }])
  })

  test('in shadow would have shed exactly the calls that its enforcing twin sheds', () => {
    const fleet = { id: 'fleet', by: [], limits: ['20/second'], headroom: { critical: '20%' } }
    const decisionsOf = (mode: string) => {
      const { limiter, clock } = limiterOf({
        priorities: ['critical', 'reads'],
        rules: [{ ...fleet, protects: 'capacity', mode }],
      })
      return Array.from({ length: 400 }, (_, i) => {
        clock.advance(i % 20)
        const priority = i % 3 === 0 ? 'critical' : 'reads'
        const { allowed, shadow } = limiter.checkSync({ attributes: { priority } })
        return mode === 'enforce' ? !allowed : shadow.length > 0
      })
    }
    const shed = decisionsOf('enforce')
    expect(shed).toContain(true)
    expect(shed).toContain(false)
    expect(decisionsOf('shadow')).toEqual(shed)
  })

  test('has a candidate that would have shed, under the ceilings of its own limits', () => {
    const candidate = { limits: [{ algorithm: 'fixed-window', max: 10, window: '1h' }] }
    const { limiter } = limiterOf({
      priorities: ['critical', 'reads'],
      rules: [
        {
          id: 'fleet',
          by: [],
          limits: ['1000/second'],
          headroom: { critical: '20%' },
          protects: 'capacity',
          candidate,
        },
      ],
    })
    const decisions = Array.from({ length: 9 }, () => limiter.checkSync(read()))
    expect(decisions.map(({ shadow }) => shadow.length)).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 1])
    expect(decisions.at(-1)?.shadowRefusals()).toMatchObject([
      { rule: 'fleet', mode: 'candidate', reason: 'shed' },
    ])
  })

  test('is not among the limits of a caller', async () => {
    const { limiter } = limiterOf(SET)
    expect(await limiter.limits(read())).toMatchObject([{ rule: 'per-user' }])
  })
})

import { describe, expect, test } from 'vitest'
import { leftFieldHead, policyField } from '../policy-field.js'
import { parseList } from 'structured-headers'
import { moduleOf } from '../algorithms/index.js'
import { defineLimit } from '../limit.js'
import { combine, type Decision, type Policy, UNMATCHED } from './decision.js'
import { jitterMs, rateLimitHeaders } from './headers.js'
import { problemBody } from './problem-body.js'

const NOW_MS = 1_767_225_600_250
const LIMIT = defineLimit({ algorithm: 'token-bucket', max: 100, windowMs: 60_000 })

const policy = (name: string, more: Partial<Policy> = {}): Policy => ({
  name,
  rule: name.split(':')[0] ?? name,
  limitName: 'main',
  algorithm: 'token-bucket',
  limit: 100,
  windowMs: 60_000,
  remaining: 40,
  resetAfterMs: 36_000,
  retryAfterMs: 0,
  ...more,
})

/** Makes the decision of a call that matches these limits, by the production code. */
function decision(policies: readonly Policy[]): Decision {
  const takes = policies.map((each) => {
    const limit = {
      ...LIMIT,
      name: each.limitName,
      algorithm: each.algorithm,
      format: moduleOf(each).format,
      windowMs: each.windowMs,
      calendar: each.window && { unit: each.window, zone: each.zone ?? 'UTC' },
      capacity: each.limit,
    }
    const field = policyField(each.name, limit)
    const compiled = {
      rule: each.rule,
      policy: each.name,
      field,
      leftField: leftFieldHead(each.name),
      posture: 'open' as const,
      durable: false,
      isPlaces: false,
      isOrdinary: true,
      coordination: 'exact' as const,
      maxStranded: 0.05,
      syncEveryMs: 100,
      block: undefined,
      sheds: false,
      ceilings: undefined,
      ceiling: undefined,
    }
    return {
      key: { hi: 0, lo: 0, partition: 0 },
      limit,
      amount: 1,
      compiled: { ...compiled, limit, immediate: limit, hi: 0, lo: 0 },
    }
  })
  const outcomes = policies.map(({ remaining, resetAfterMs, retryAfterMs }) => ({
    granted: 0,
    remaining,
    resetAfterMs,
    retryAfterMs,
    delayMs: 0,
    at: 0,
  }))
  return combine({ matched: [], groups: [takes], shadows: [] }, [outcomes], 'store')
}

const headersOf = (subject: Decision, jitter = 0) =>
  Object.fromEntries(rateLimitHeaders(subject, { nowMs: NOW_MS, jitterMs: jitter }))

describe('headers', () => {
  test('of an allowed call list every limit, what is left, and when it resets', () => {
    expect(
      headersOf(decision([policy('burst'), policy('hourly:log', { windowMs: 1500 })])),
    ).toEqual({
      'RateLimit-Policy': '"burst";q=100;w=60, "hourly:log";q=100',
      RateLimit: '"burst";r=40;t=36, "hourly:log";r=40;t=36',
      'X-RateLimit-Limit': '100',
      'X-RateLimit-Remaining': '40',
      'X-RateLimit-Reset': '1767225637',
    })
  })

  test('of a refusal give the retry time, rounded up, and forbid caching', () => {
    const spent = policy('burst', { remaining: 0, retryAfterMs: 1001, resetAfterMs: 60_000 })
    expect(headersOf(decision([spent, policy('day', { windowMs: 86_400_000 })]))).toEqual({
      'RateLimit-Policy': '"burst";q=100;w=60, "day";q=100;w=86400',
      RateLimit: '"burst";r=0;t=2, "day";r=40',
      'X-RateLimit-Limit': '100',
      'X-RateLimit-Remaining': '0',
      'X-RateLimit-Reset': '1767225661',
      'Retry-After': '2',
      'Cache-Control': 'no-store',
    })
  })

  test('show no window of a calendar, whose windows differ in length', () => {
    const month = { algorithm: 'fixed-window', window: 'month', windowMs: 2_678_400_000 } as const
    const subject = decision([policy('burst'), policy('budget', month)])
    expect(headersOf(subject)['RateLimit-Policy']).toBe('"burst";q=100;w=60, "budget";q=100')
    const older = rateLimitHeaders(subject, { nowMs: NOW_MS, standard: 'draft-7' })
    expect(older[0]).toEqual(['RateLimit-Policy', '100;w=60, 100'])
  })

  test('never ask for a retry before the end of `t`, or before one second', () => {
    const headers = headersOf(decision([policy('r', { remaining: 0, retryAfterMs: 3 })]))
    expect(headers).toMatchObject({ 'Retry-After': '1', RateLimit: '"r";r=0;t=1' })
  })

  test('omit the retry time if waiting does not help', () => {
    const never = policy('r', { retryAfterMs: null })
    const headers = headersOf(decision([never]))
    expect(headers).not.toHaveProperty('Retry-After')
    expect(headers['RateLimit']).toBe('"r";r=40')
  })

  test('are absent if no enforced limit matches the call', () => {
    expect(rateLimitHeaders(decision([]), { nowMs: NOW_MS })).toEqual([])
  })

  test('of a refusal without limits, as by a remote limiter, still give the retry time', () => {
    const refused = { ...UNMATCHED, allowed: false, retryAfterMs: 1000 }
    expect(rateLimitHeaders(refused, { nowMs: NOW_MS })).toEqual([
      ['Retry-After', '1'],
      ['Cache-Control', 'no-store'],
    ])
  })

  test.each([
    [
      'draft-6',
      [
        ['RateLimit-Policy', '100;w=60, 5'],
        ['RateLimit-Limit', '5'],
        ['RateLimit-Remaining', '1'],
        ['RateLimit-Reset', '36'],
      ],
    ],
    [
      'draft-7',
      [
        ['RateLimit-Policy', '100;w=60, 5'],
        ['RateLimit', 'limit=5, remaining=1, reset=36'],
      ],
    ],
    [
      'draft-8',
      [
        ['RateLimit-Policy', '"a";q=100;w=60, "b";q=5'],
        ['RateLimit', '"a";r=40;t=36, "b";r=1;t=36'],
      ],
    ],
    [false, []],
  ] as const)('are those of %s on request, without the legacy ones', (standard, expected) => {
    const decided = decision([policy('a'), policy('b', { limit: 5, windowMs: 500, remaining: 1 })])
    const options = { nowMs: NOW_MS, standard, legacy: false }
    expect(rateLimitHeaders(decided, options)).toEqual(expected)
  })

  test('of an older draft name the retry as the reset of a refusal, and forbid caching', () => {
    const refused = decision([policy('a', { remaining: 0, retryAfterMs: 9_100 })])
    const options = { nowMs: NOW_MS, standard: 'draft-7', legacy: false } as const
    expect(rateLimitHeaders(refused, options)).toEqual([
      ['RateLimit-Policy', '100;w=60'],
      ['RateLimit', 'limit=100, remaining=0, reset=10'],
      ['Retry-After', '10'],
      ['Cache-Control', 'no-store'],
    ])
  })

  test('are only the legacy ones without a standard', () => {
    const names = rateLimitHeaders(decision([policy('a')]), { nowMs: NOW_MS, standard: false })
    expect(names.map(([name]) => name)).toEqual([
      'X-RateLimit-Limit',
      'X-RateLimit-Remaining',
      'X-RateLimit-Reset',
    ])
  })

  test('parse as structured fields, including the largest limit', () => {
    const huge = policy('r', { limit: 999_999_999_999_999, remaining: 999_999_999_999_999 })
    const headers = headersOf(decision([huge, policy('s:t')]))
    const [[name, parameters] = []] = parseList(headers['RateLimit-Policy'] ?? '')
    expect([name, parameters?.get('q')]).toEqual(['r', 999_999_999_999_999])
    expect(parseList(headers['RateLimit'] ?? '')).toHaveLength(2)
  })
})

describe('jitter', () => {
  const spent = { remaining: 0, retryAfterMs: 30_000, resetAfterMs: 30_000 }
  const fixed = decision([policy('r', { algorithm: 'fixed-window', ...spent })])

  test('spreads retries over a tenth of a fixed window, and changes no other algorithm', () => {
    expect(jitterMs(fixed, 0)).toBe(0)
    expect(jitterMs(fixed, 0.5)).toBe(2500)
    expect(jitterMs(fixed, 0.9999)).toBeLessThanOrEqual(5000)
    expect(jitterMs(decision([policy('r', spent)]), 0.5)).toBe(0)
    const other = policy('r:other', { algorithm: 'fixed-window', limitName: 'other', ...spent })
    expect(jitterMs(decision([policy('r', spent), other]), 0.5)).toBe(0)
    const short = decision([policy('r', { algorithm: 'fixed-window', windowMs: 1000, ...spent })])
    expect(jitterMs(short, 0.9999)).toBe(99)
    const month = { algorithm: 'fixed-window', window: 'month', windowMs: 2_678_400_000 } as const
    expect(jitterMs(decision([policy('r', { ...month, ...spent })]), 0.5)).toBe(2500)
    const own = { algorithm: 'fixed-window', start: 'call', ...spent } as const
    expect(jitterMs(decision([policy('r', own)]), 0.9999)).toBe(0)
  })

  test('only lengthens times, and moves all three together', () => {
    const plain = headersOf(fixed)
    const later = headersOf(fixed, 3000)
    expect([plain['Retry-After'], later['Retry-After']]).toEqual(['30', '33'])
    expect([plain['RateLimit'], later['RateLimit']]).toEqual(['"r";r=0;t=30', '"r";r=0;t=33'])
    expect(Number(later['X-RateLimit-Reset']) - Number(plain['X-RateLimit-Reset'])).toBe(3)
  })
})

describe('the body of a refusal', () => {
  test('names the policies that refused and how long to wait', () => {
    const spent = policy('burst', { remaining: 0, retryAfterMs: 36_001 })
    expect(problemBody(decision([spent, policy('day')]))).toEqual({
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      title: 'Quota Exceeded',
      status: 429,
      detail: 'Too many requests. Retry after 37 seconds.',
      'violated-policies': ['burst'],
      error: 'rate_limited',
      retry_after_seconds: 37,
    })
  })

  test('contains "one second" instead of "1 seconds"', () => {
    const body = problemBody(decision([policy('r', { retryAfterMs: 200 })]))
    expect(body.detail).toBe('Too many requests. Retry after 1 second.')
  })

  test('states that waiting does not help if it does not', () => {
    const never = decision([policy('r', { retryAfterMs: null })])
    expect(problemBody(never).detail).toMatch(/costs more than the limit of 100 ever holds/)
    expect(problemBody(never)).not.toHaveProperty('retry_after_seconds')
  })

  test('by posture is `reduced capacity` with status 429, or 503 if configured', () => {
    const refused = decision([policy('r', { retryAfterMs: 1000 })])
    const posture = {
      ...refused,
      policies: () => refused.policies(),
      reason: 'posture',
    } as Decision
    expect(problemBody(posture)).toMatchObject({ status: 429, title: 'Temporary Reduced Capacity' })
    expect(problemBody(posture, { postureStatus: 503 }).status).toBe(503)
  })
})

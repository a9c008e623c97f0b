import type { AdminDecisionView } from '@sluice/client'
import { describe, expect, test } from 'vitest'
import { explainDecision, decisionSummary, stateText, limitVerdict } from './explanation.js'

const decision = (more: object): AdminDecisionView => ({
  allowed: false,
  reason: 'over',
  rule: 'orders-per-user',
  limitName: 'hourly',
  limit: 1000,
  remaining: 0,
  resetAfterMs: 3_600_000,
  retryAfterMs: 36_100,
  delayMs: 0,
  shadow: [],
  source: 'store',
  callers: [],
  ...more,
})

describe('decisionSummary', () => {
  test.each([
    [{}, 'Refused by orders-per-user/hourly: 0 of 1,000 left, retry in 37 s.'],
    [
      { retryAfterMs: null },
      'Refused by orders-per-user/hourly: 0 of 1,000 left, and waiting does not help.',
    ],
    [
      { reason: 'cost_exceeds_limit', retryAfterMs: null },
      'Refused by orders-per-user/hourly: the request costs more than the limit of 1,000 can ever hold.',
    ],
    [
      { reason: 'posture' },
      'Refused by orders-per-user/hourly on store failure: 0 of 1,000 left, retry in 37 s.',
    ],
    [
      { reason: 'shed', rule: null, limitName: null, retryAfterMs: 2000, priority: 'reads' },
      'Shed: this node is too busy.',
    ],
    [
      { reason: 'shed', limit: 800, retryAfterMs: 2000, priority: 'reads' },
      'Shed by orders-per-user/hourly to protect capacity: 0 of 800 left for priority reads, retry in 2 s.',
    ],
    [
      { reason: 'shed', retryAfterMs: 2000 },
      'Shed by orders-per-user/hourly to protect capacity: 0 of 1,000 left, retry in 2 s.',
    ],
    [
      { allowed: true, reason: 'within', remaining: 7 },
      'Allowed: 7 of 1,000 left of the tightest limit, orders-per-user/hourly.',
    ],
    [
      { allowed: true, reason: 'within', remaining: 7, delayMs: 250 },
      'Allowed after a delay of 250 ms: 7 of 1,000 left of the tightest limit, orders-per-user/hourly.',
    ],
    [
      { allowed: true, reason: 'unmatched', rule: null },
      'Allowed: no rule with a limit matches this request.',
    ],
  ])('the decision %j is summarized in one sentence', (more, summary) => {
    expect(decisionSummary(decision(more))).toBe(summary)
  })
})

describe('explainDecision', () => {
  const limit = {
    name: 'hourly',
    algorithm: 'gcra',
    limit: 1000,
    windowMs: 3_600_000,
    candidate: false,
    amount: 1,
    remaining: 0,
    resetAfterMs: 1,
    retryAfterMs: 36_100,
    delayMs: 0,
    state: { tat: 5 },
    staleMs: 40,
  }
  const explain = [
    { rule: 'a', matched: true, why: null, mode: 'enforce', caller: 'h1', limits: [limit] },
    { rule: 'b', matched: false, why: 'path is "/"', mode: 'shadow', caller: null, limits: [] },
    'nonsense',
  ]
  const callers = [{ rule: 'a', caller: { user: 'u1' }, hash: 'h1' }]

  test('matching and other rules are separated, with the caller of each', () => {
    const answer = explainDecision(decision({ explain, callers, source: 'lease', staleMs: 40 }))
    expect(answer.matched).toMatchObject([{ rule: 'a', hash: 'h1', caller: { user: 'u1' } }])
    expect(answer.unmatched).toMatchObject([{ rule: 'b', why: 'path is "/"' }])
    expect(answer.decidedBy).toBe('by this node, from a lease, 40 ms old')
  })

  test('the priority of a request and the ceilings of its limits are read', () => {
    const limits = [{ ...limit, ceiling: 800 }, limit]
    const answer = explainDecision(
      decision({ priority: 'reads', explain: [{ ...(explain[0] as object), limits }] }),
    )
    expect(answer.priority).toBe('reads')
    expect(answer.matched[0]?.limits.map(({ ceiling }) => ceiling)).toEqual([800, undefined])
    const busy = explainDecision(decision({ reason: 'shed', rule: null, source: 'local' }))
    expect(busy.decidedBy).toBe('by this node, before any rule')
  })

  test('the note of a rule is read', () => {
    const noted = [{ ...(explain[0] as object), note: 'counted by the gateway' }, explain[1]]
    const answer = explainDecision(decision({ explain: noted }))
    expect(answer.matched[0]?.note).toBe('counted by the gateway')
    expect(answer.unmatched[0]?.note).toBeUndefined()
  })

  test('a decision without an explanation has no rules', () => {
    expect(explainDecision(decision({})).matched).toEqual([])
  })

  test('each limit has a verdict', () => {
    const verdicts = (more: object) =>
      explainDecision(
        decision({ explain: [{ ...(explain[0] as object), limits: [{ ...limit, ...more }] }] }),
      ).matched[0]?.limits.map(limitVerdict)
    expect(verdicts({})).toEqual(['exhausted: retry in 37 s'])
    expect(verdicts({ retryAfterMs: 0 })).toEqual(['within the limit'])
    expect(verdicts({ retryAfterMs: 0, delayMs: 20 })).toEqual(['within the limit after 20 ms'])
    expect(verdicts({ retryAfterMs: null })).toEqual(['can never allow this cost'])
  })

  test('a calendar window is shown with its zone', () => {
    const windows = (more: object) =>
      explainDecision(
        decision({ explain: [{ ...(explain[0] as object), limits: [{ ...limit, ...more }] }] }),
      ).matched[0]?.limits.map(({ calendar }) => calendar)
    expect(windows({})).toEqual([undefined])
    const budget = { window: 'month', zone: 'Europe/Berlin' }
    expect(windows(budget)).toEqual(['calendar month, Europe/Berlin'])
  })

  test('a counter is shown field by field', () => {
    expect(stateText({ tokens: 3, at: 5 })).toBe('tokens 3, at 5')
    expect(stateText([{ holder: 7, places: 2, expiresAtMs: 10_000 }])).toBe(
      'node 7: 2 in flight, until 1970-01-01T00:00:10.000Z unless renewed',
    )
    expect(stateText(null)).toMatch(/full budget/)
  })
})

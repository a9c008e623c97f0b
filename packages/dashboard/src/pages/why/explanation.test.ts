import type { DecisionView } from '@sluice/client'
import { describe, expect, test } from 'vitest'
import { explainDecision, decisionSummary, stateText, limitVerdict } from './explanation.js'

const decision = (more: object): DecisionView => ({
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

describe('the answer in one sentence', () => {
  test.each([
    [{}, 'Refused by orders-per-user/hourly: 0 of 1,000 left, retry in 37 s.'],
    [
      { retryAfterMs: null },
      'Refused by orders-per-user/hourly: 0 of 1,000 left, and no wait helps.',
    ],
    [
      { reason: 'cost_exceeds_limit', retryAfterMs: null },
      'Refused by orders-per-user/hourly: the call costs more than the limit of 1,000 can ever hold.',
    ],
    [
      { reason: 'posture' },
      'Refused by orders-per-user/hourly by its posture, without the store: 0 of 1,000 left, retry in 37 s.',
    ],
    [
      { allowed: true, reason: 'within', remaining: 7 },
      'Allowed: 7 of 1,000 left of the tightest limit, orders-per-user/hourly.',
    ],
    [
      { allowed: true, reason: 'within', remaining: 7, delayMs: 250 },
      'Allowed, held for 250 ms: 7 of 1,000 left of the tightest limit, orders-per-user/hourly.',
    ],
    [
      { allowed: true, reason: 'unmatched', rule: null },
      'Allowed: no rule with a limit matches this call.',
    ],
  ])('of %j', (more, said) => {
    expect(decisionSummary(decision(more))).toBe(said)
  })
})

describe('the explanation', () => {
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

  test('tells what matched from what did not, and who is counted', () => {
    const answer = explainDecision(decision({ explain, callers, source: 'lease', staleMs: 40 }))
    expect(answer.matched).toMatchObject([{ rule: 'a', hash: 'h1', caller: { user: 'u1' } }])
    expect(answer.unmatched).toMatchObject([{ rule: 'b', why: 'path is "/"' }])
    expect(answer.decidedBy).toBe('by this node, from a lease, known since 40 ms')
  })

  test('of a server that explains nothing is empty', () => {
    expect(explainDecision(decision({})).matched).toEqual([])
  })

  test('says of each limit whether it has room', () => {
    const of = (more: object) =>
      explainDecision(
        decision({ explain: [{ ...(explain[0] as object), limits: [{ ...limit, ...more }] }] }),
      ).matched[0]?.limits.map(limitVerdict)
    expect(of({})).toEqual(['full: room in 37 s'])
    expect(of({ retryAfterMs: 0 })).toEqual(['has room'])
    expect(of({ retryAfterMs: 0, delayMs: 20 })).toEqual(['room after 20 ms'])
    expect(of({ retryAfterMs: null })).toEqual(['never has room'])
  })

  test('shows a state field by field', () => {
    expect(stateText({ tokens: 3, at: 5 })).toBe('tokens 3, at 5')
    expect(stateText(null)).toMatch(/whole budget/)
  })
})

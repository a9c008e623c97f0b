import type { RuleStatsView } from '@sluice/client'
import { describe, expect, test } from 'vitest'
import {
  promotionOutlook,
  type CandidateComparison,
  compareCandidate,
} from './candidate-comparison.js'

type Steps = readonly number[]

function stats(refused: Steps, wouldRefuse: Steps, allowed: Steps = wouldRefuse): RuleStatsView {
  const none = refused.map(() => 0)
  const times = { stepMs: 10_000, endMs: 100_000, degraded: none }
  return {
    rule: 'r',
    series: { ...times, allowed: none, refused, shadowRefused: none },
    candidate: { ...times, allowed, refused: none, shadowRefused: wouldRefuse },
    refusingSince: null,
    callers: null,
    left: [],
  }
}

describe('compareCandidate', () => {
  test('the comparison covers only the steps of the candidate', () => {
    const comparison = compareCandidate(stats([900, 900, 7, 8, 9], [0, 0, 1, 20, 30]))
    // The candidate was added during the third step, so that step is left out.
    expect(comparison).toMatchObject({
      spanMs: 20_000,
      refused: 17,
      wouldRefuse: 50,
      evaluated: 100,
    })
  })

  test('a candidate older than the series is compared over all steps', () => {
    expect(compareCandidate(stats([1, 2, 3], [4, 0, 6]))).toMatchObject({
      spanMs: 30_000,
      refused: 6,
      wouldRefuse: 10,
    })
  })

  test('a candidate of the last step is compared over that step', () => {
    expect(compareCandidate(stats([5, 5], [0, 3]))).toMatchObject({
      spanMs: 10_000,
      refused: 5,
      wouldRefuse: 3,
    })
  })

  test('without calls there is no comparison', () => {
    expect(compareCandidate(undefined)).toBeUndefined()
    expect(compareCandidate({ ...stats([1], [1]), candidate: null })).toBeUndefined()
    expect(compareCandidate(stats([5, 5], [0, 0]))).toBeUndefined()
  })
})

describe('promotionOutlook', () => {
  const comparison = (more: Partial<CandidateComparison>): CandidateComparison => ({
    spanMs: 20_000,
    allowed: 100,
    refused: 0,
    shadowRefused: 0,
    evaluated: 100,
    wouldRefuse: 0,
    ...more,
  })

  test('an enforced rule shows the additional refusals', () => {
    expect(promotionOutlook(comparison({ refused: 23, wouldRefuse: 417 }), 'enforce')).toMatch(
      /^In the last 20 s it would have refused 417 more requests, in addition to the 23 that were refused\./,
    )
    expect(promotionOutlook(comparison({ wouldRefuse: 1 }), undefined)).toBe(
      'In the last 20 s it would have refused 1 more request; none were refused.',
    )
  })

  test('looser limits show that their effect on refused requests is unknown', () => {
    expect(promotionOutlook(comparison({ refused: 23 }), 'enforce')).toMatch(
      /no more requests, in addition to the 23 .* unknown how many refused requests .* allow\.$/,
    )
  })

  test('a shadow rule is compared by its shadow refusals', () => {
    expect(promotionOutlook(comparison({ shadowRefused: 30, wouldRefuse: 20 }), 'shadow')).toBe(
      'In the last 20 s it would have refused 20 requests; the active limits would have refused 30.',
    )
    expect(
      promotionOutlook(comparison({ refused: 2, shadowRefused: 30, wouldRefuse: 20 }), 'shadow'),
    ).toContain('20 more requests, in addition to the 2 that were refused')
  })
})

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

describe('a trial', () => {
  test('is held against what the rule refused in the same steps, not before', () => {
    const trial = compareCandidate(stats([900, 900, 7, 8, 9], [0, 0, 1, 20, 30]))
    // The third step is the one in which it began: only a part of it was on trial.
    expect(trial).toMatchObject({ spanMs: 20_000, refused: 17, wouldRefuse: 50, evaluated: 100 })
  })

  test('of ten minutes or more counts them all', () => {
    expect(compareCandidate(stats([1, 2, 3], [4, 0, 6]))).toMatchObject({
      spanMs: 30_000,
      refused: 6,
      wouldRefuse: 10,
    })
  })

  test('that has just begun counts the step in which it did', () => {
    expect(compareCandidate(stats([5, 5], [0, 3]))).toMatchObject({
      spanMs: 10_000,
      refused: 5,
      wouldRefuse: 3,
    })
  })

  test('of which nothing was seen says nothing', () => {
    expect(compareCandidate(undefined)).toBeUndefined()
    expect(compareCandidate({ ...stats([1], [1]), candidate: null })).toBeUndefined()
    expect(compareCandidate(stats([5, 5], [0, 0]))).toBeUndefined()
  })
})

describe('the outlook', () => {
  const trial = (more: Partial<CandidateComparison>): CandidateComparison => ({
    spanMs: 20_000,
    allowed: 100,
    refused: 0,
    shadowRefused: 0,
    evaluated: 100,
    wouldRefuse: 0,
    ...more,
  })

  test('of a rule that refuses is what would be refused on top', () => {
    expect(promotionOutlook(trial({ refused: 23, wouldRefuse: 417 }), 'enforce')).toMatch(
      /^In the last 20 s it would have refused 417 more calls, beside the 23 that were refused\./,
    )
    expect(promotionOutlook(trial({ wouldRefuse: 1 }), undefined)).toBe(
      'In the last 20 s it would have refused 1 more call; none was refused.',
    )
  })

  test('of looser limits says that a trial cannot show what they would let pass', () => {
    expect(promotionOutlook(trial({ refused: 23 }), 'enforce')).toMatch(
      /no more calls, beside the 23 .*: how many .* let pass cannot be told from a trial\.$/,
    )
  })

  test('of a rule in shadow, which refuses nobody, holds all of it against all of it', () => {
    expect(promotionOutlook(trial({ shadowRefused: 30, wouldRefuse: 20 }), 'shadow')).toBe(
      'In the last 20 s it would have refused 20 calls; the limits in force would have refused 30.',
    )
    expect(
      promotionOutlook(trial({ refused: 2, shadowRefused: 30, wouldRefuse: 20 }), 'shadow'),
    ).toContain('20 more calls, beside the 2 that were refused')
  })
})

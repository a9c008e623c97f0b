import type { RuleStatsView } from '@sluice/client'
import { describe, expect, test } from 'vitest'
import { outlookOf, type Trial, trialOf } from './trial.js'

type Steps = readonly number[]

function stats(refused: Steps, would: Steps, allowed: Steps = would): RuleStatsView {
  const none = refused.map(() => 0)
  const times = { stepMs: 10_000, endMs: 100_000, degraded: none }
  return {
    rule: 'r',
    series: { ...times, allowed: none, refused, shadowRefused: none },
    candidate: { ...times, allowed, refused: none, shadowRefused: would },
    refusingSince: null,
    callers: null,
    left: [],
  }
}

describe('a trial', () => {
  test('is held against what the rule refused in the same steps, not before', () => {
    const trial = trialOf(stats([900, 900, 7, 8, 9], [0, 0, 1, 20, 30]))
    // The third step is the one in which it began: only a part of it was on trial.
    expect(trial).toMatchObject({ spanMs: 20_000, refused: 17, would: 50, asked: 100 })
  })

  test('of ten minutes or more counts them all', () => {
    expect(trialOf(stats([1, 2, 3], [4, 0, 6]))).toMatchObject({
      spanMs: 30_000,
      refused: 6,
      would: 10,
    })
  })

  test('that has just begun counts the step in which it did', () => {
    expect(trialOf(stats([5, 5], [0, 3]))).toMatchObject({ spanMs: 10_000, refused: 5, would: 3 })
  })

  test('of which nothing was seen says nothing', () => {
    expect(trialOf(undefined)).toBeUndefined()
    expect(trialOf({ ...stats([1], [1]), candidate: null })).toBeUndefined()
    expect(trialOf(stats([5, 5], [0, 0]))).toBeUndefined()
  })
})

describe('the outlook', () => {
  const trial = (more: Partial<Trial>): Trial => ({
    spanMs: 20_000,
    allowed: 100,
    refused: 0,
    shadowRefused: 0,
    asked: 100,
    would: 0,
    ...more,
  })

  test('of a rule that refuses is what would be refused on top', () => {
    expect(outlookOf(trial({ refused: 23, would: 417 }), 'enforce')).toMatch(
      /^In the last 20 s it would have refused 417 more calls, beside the 23 that were refused\./,
    )
    expect(outlookOf(trial({ would: 1 }), undefined)).toBe(
      'In the last 20 s it would have refused 1 more call; none was refused.',
    )
  })

  test('of looser limits says that a trial cannot show what they would let pass', () => {
    expect(outlookOf(trial({ refused: 23 }), 'enforce')).toMatch(
      /no more calls, beside the 23 .*: how many .* let pass cannot be told from a trial\.$/,
    )
  })

  test('of a rule in shadow, which refuses nobody, holds all of it against all of it', () => {
    expect(outlookOf(trial({ shadowRefused: 30, would: 20 }), 'shadow')).toBe(
      'In the last 20 s it would have refused 20 calls; the limits in force would have refused 30.',
    )
    expect(outlookOf(trial({ refused: 2, shadowRefused: 30, would: 20 }), 'shadow')).toContain(
      '20 more calls, beside the 2 that were refused',
    )
  })
})

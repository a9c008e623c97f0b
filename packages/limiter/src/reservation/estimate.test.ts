import { describe, expect, it } from 'vitest'
import { EstimateRatios, estimateTokens } from './estimate.js'

describe('estimateTokens', () => {
  it('counts four characters as a token and adds the most that may be answered', () => {
    expect(estimateTokens({ characters: 4000 })).toBe(1000)
    expect(estimateTokens({ characters: 4001 })).toBe(1001)
    expect(estimateTokens({ characters: 4000, maximum: 500 })).toBe(1500)
  })

  it('is never above the smallest limit and never below 1', () => {
    expect(estimateTokens({ characters: 4000, maximum: 500, limit: 1200 })).toBe(1200)
    expect(estimateTokens({ characters: 0 })).toBe(1)
  })

  it('is corrected by the ratio of used to estimated tokens before it is capped', () => {
    expect(estimateTokens({ characters: 4000, maximum: 1000, ratio: 0.25 })).toBe(500)
    expect(estimateTokens({ characters: 4000, ratio: 2, limit: 1500 })).toBe(1500)
  })
})

describe('EstimateRatios', () => {
  it('knows nothing of a name at first', () => {
    expect(new EstimateRatios().ratioOf('tokens')).toBe(1)
  })

  it('approaches what calls really use', () => {
    const ratios = new EstimateRatios()
    for (let i = 0; i < 100; i++) ratios.record('tokens', 1000, 250)
    expect(ratios.ratioOf('tokens')).toBeCloseTo(0.25)
    for (let i = 0; i < 100; i++) ratios.record('tokens', 1000, 500)
    expect(ratios.ratioOf('tokens')).toBeCloseTo(0.5, 2)
    expect(ratios.ratioOf('others')).toBe(1)
  })

  it('stays between 0.05 and 4, and ignores calls without an estimate', () => {
    const ratios = new EstimateRatios()
    ratios.record('large', 1, 1_000_000)
    ratios.record('small', 1_000_000, 0)
    ratios.record('none', 0, 10)
    expect(['large', 'small', 'none'].map((name) => ratios.ratioOf(name))).toEqual([4, 0.05, 1])
  })

  it('keeps the thousand names that were recorded last', () => {
    const ratios = new EstimateRatios()
    for (let i = 0; i < 1001; i++) ratios.record(`rule-${i}`, 100, 50)
    expect(ratios.ratioOf('rule-0')).toBe(1)
    expect(ratios.ratioOf('rule-1')).toBe(0.5)
  })
})

import { describe, expect, test } from 'vitest'
import type { RequestFacts } from './request-reader.js'
import { TokenEstimates } from './token-estimates.js'

const CONFIG = {
  dialect: 'openai',
  defaultOutput: 500,
  prices: new Map([['gpt-5', { input: 2, output: 10, cached: 1 }]]),
  onExhausted: 'continue',
} as const
const FACTS: RequestFacts = {
  characters: 4000,
  maximum: 200,
  answers: 1,
  model: 'gpt-5',
  stream: false,
}
const NO_LIMITS = new Map<string, number>()

describe('estimates', () => {
  test('have input, output, both and money', () => {
    const { costs } = new TokenEstimates(CONFIG).estimate(FACTS, NO_LIMITS)
    expect(costs).toEqual({ input_tokens: 1000, output_tokens: 200, tokens: 1200, spend: 4000 })
  })

  test('have no money without prices', () => {
    const { costs } = new TokenEstimates({ ...CONFIG, prices: new Map() }).estimate(
      FACTS,
      NO_LIMITS,
    )
    expect(costs).toEqual({ input_tokens: 1000, output_tokens: 200, tokens: 1200 })
  })

  test('assume the configured output if the request asks for no maximum, for each answer', () => {
    const facts = { ...FACTS, maximum: undefined, answers: 3 }
    const { costs } = new TokenEstimates(CONFIG).estimate(facts, NO_LIMITS)
    expect(costs.output_tokens).toBe(1500)
  })

  test('have no output where the API has none', () => {
    const { costs } = new TokenEstimates(CONFIG).estimate({ ...FACTS, maximum: 0 }, NO_LIMITS)
    expect([costs.output_tokens, costs.tokens]).toEqual([0, 1000])
  })

  test('never exceed the smallest limit of each attribute, and are never free', () => {
    const limits = new Map([
      ['input_tokens', 300],
      ['tokens', 700],
      ['spend', 0],
    ])
    const { costs } = new TokenEstimates(CONFIG).estimate(FACTS, limits)
    expect(costs).toEqual({ input_tokens: 300, output_tokens: 200, tokens: 700, spend: 1 })
  })

  test('approach what calls of the same model use, in each direction', () => {
    const estimates = new TokenEstimates(CONFIG)
    const usage = { input: 1500, cached: 0, output: 50, reasoning: 0 }
    for (let i = 0; i < 100; i++) estimates.record(estimates.estimate(FACTS, NO_LIMITS), usage)
    const { costs } = estimates.estimate(FACTS, NO_LIMITS)
    expect([costs.input_tokens, costs.output_tokens]).toEqual([1500, 50])
    const other = estimates.estimate({ ...FACTS, model: 'gpt-6' }, NO_LIMITS)
    expect(other.costs.input_tokens).toBe(1000)
    expect([estimates.ratioOf('input'), estimates.ratioOf('output')]).toEqual([1.5, 0.25])
  })

  test('price what was used, cached input apart', () => {
    const usage = { input: 100, cached: 40, output: 10 }
    expect(new TokenEstimates(CONFIG).costsOf('gpt-5', usage)).toEqual({
      input_tokens: 100,
      output_tokens: 10,
      tokens: 110,
      spend: 60 * 2 + 40 + 100,
    })
  })
})

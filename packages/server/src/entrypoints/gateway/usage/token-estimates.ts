/** Estimates what a call to one upstream will use, and learns from what calls really used. */
import { EstimateRatios, estimateTokens } from '@sluice/limiter'
import type { UsageConfig } from '../../../config/config.js'
import { COST_ATTRIBUTES } from '../../../config/usage-attributes.js'
import type { TokenUsage } from './dialects.js'
import { PriceTable } from './prices.js'
import type { RequestFacts } from './request-reader.js'

/** An amount for each cost attribute. */
export type Costs = Readonly<{
  input_tokens: number
  output_tokens: number
  tokens: number
  /** Undefined without prices. */
  spend?: number
}>

/** An estimate, and what it was made of. */
export interface CallEstimate {
  /** Never above the smallest limit of each. */
  readonly costs: Costs
  /** Whether a limit made one of them smaller. */
  readonly isCapped: boolean
  /** The estimated input, within the limits too. */
  readonly input: number
  readonly facts: RequestFacts
  /** Before ratio and limit. */
  readonly raw: { readonly input: number; readonly output: number }
}

/** The two directions that estimates are corrected for. */
const TOKEN_KINDS = ['input', 'output'] as const

export class TokenEstimates {
  readonly #config: UsageConfig
  readonly #prices: PriceTable | undefined
  readonly #ratios = new EstimateRatios()

  constructor(config: UsageConfig) {
    this.#config = config
    this.#prices = config.prices.size === 0 ? undefined : new PriceTable(config.prices)
  }

  /** `limits`: the smallest limit of each cost attribute, as `costLimits` of the limiter says. */
  estimate(facts: RequestFacts, limits: ReadonlyMap<string, number>): CallEstimate {
    const { characters, maximum = this.#config.defaultOutput, answers } = facts
    const raw = { input: estimateTokens({ characters }), output: maximum * answers }
    const input = estimateTokens({ characters, ratio: this.ratioOf('input', facts.model) })
    const ratio = this.ratioOf('output', facts.model)
    const output =
      raw.output === 0 ? 0 : estimateTokens({ characters: 0, maximum: raw.output, ratio })
    const all = this.costsOf(facts.model, { input, cached: 0, output })
    const costs: Costs = {
      input_tokens: cap(all.input_tokens, limits.get('input_tokens')),
      output_tokens: cap(all.output_tokens, limits.get('output_tokens')),
      tokens: cap(all.tokens, limits.get('tokens')),
      ...(all.spend !== undefined && { spend: cap(all.spend, limits.get('spend')) }),
    }
    const isCapped = COST_ATTRIBUTES.some((name) => (costs[name] ?? 0) < (all[name] ?? 0))
    return { facts, raw, costs, isCapped, input: Math.min(costs.input_tokens, costs.tokens) }
  }

  /** What tokens cost, by cost attribute. */
  costsOf(model: string | undefined, usage: Omit<TokenUsage, 'reasoning'>): Costs {
    const { input, output } = usage
    const tokens = { input_tokens: input, output_tokens: output, tokens: input + output }
    if (this.#prices === undefined) return tokens
    return { ...tokens, spend: this.#prices.spendOf(model, usage) }
  }

  /** Learns from the usage that an answer reported. */
  record({ facts, raw }: CallEstimate, usage: TokenUsage): void {
    for (const kind of TOKEN_KINDS) {
      this.#ratios.record(kind, raw[kind], usage[kind])
      if (facts.model !== undefined)
        this.#ratios.record(nameOf(kind, facts.model), raw[kind], usage[kind])
    }
  }

  /** Tokens used for each estimated one; of all models if none is given. */
  ratioOf(kind: 'input' | 'output', model?: string): number {
    return this.#ratios.ratioOf(model === undefined ? kind : nameOf(kind, model))
  }
}

/** More than a limit could never pass; 0 would always pass, also a limit of 0. */
function cap(amount: number, limit = amount): number {
  return Math.min(amount, Math.max(1, limit))
}

function nameOf(kind: string, model: string): string {
  return `${kind} ${model}`
}
